"""Tests of compiled programs need a C and a C++ compiler, like their users; without them, only the others are collected."""

import shutil

collect_ignore_glob = [] if shutil.which("cc") and shutil.which("c++") else ["test_[!g]*.py"]
