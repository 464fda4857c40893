"""Tests of compiled programs need a C and a C++ compiler, as their users do; only the others run without them."""

import shutil

collect_ignore_glob = [] if shutil.which("cc") and shutil.which("c++") else ["test_[!g]*.py"]
