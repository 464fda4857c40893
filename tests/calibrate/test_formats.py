"""Readers of measurements: all that benchmarks print, and what is said of what they do not."""

import pytest

from tests.calibrate.helpers import data
from xsim_py.calibrate.formats import read_measurements
from xsim_py.calibrate.measured import ISEND, PINGPONG, RECV, STREAM
from xsim_py.errors import ConfigError


def read(text: str, tmp_path) -> dict[tuple[str, int | None, str | None], dict[int, float]]:
    (tmp_path / "file").write_text(text, encoding="utf-8")
    return {(s.operation, s.ranks, s.layer): dict(s.seconds) for s in read_measurements(str(tmp_path / "file"))}


def test_the_files_of_others():
    assert {s.operation: len(s.seconds) for s in data("stampede-remote.csv")} == {PINGPONG: 490, ISEND: 490, RECV: 490}
    (latency,) = data("azure-osu_latency.txt")
    assert (latency.operation, len(latency.seconds), latency.seconds[4096]) == (PINGPONG, 24, pytest.approx(3.55e-6))
    (rate,) = data("azure-osu_bw.txt")
    assert (rate.operation, rate.seconds[4194304]) == (STREAM, pytest.approx(4194304 / 24453.38e6))
    (barrier,) = data("fram-osu_barrier-512.txt")
    assert (barrier.operation, barrier.seconds) == ("barrier", {0: pytest.approx(9.25e-6)})
    imb = {(s.operation, s.ranks): s.seconds for s in data("imb-layout.txt")}
    assert imb[PINGPONG, 2][4096] == pytest.approx(3.55e-6)
    assert imb["allreduce", 3072][1048576] == pytest.approx(7572.44e-6)
    assert imb["barrier", 512] == {0: pytest.approx(9.25e-6)}
    (netgauge,) = data("netgauge-loggp-tukey.dat")
    assert len(netgauge.seconds) == 27  # one of 28 stands there twice
    assert netgauge.seconds[8] == pytest.approx(10.747203e-6 / 2)


NEWER = """\
some words of a launcher
# OSU MPI Allreduce Latency Test v7.4
# Datatype: MPI_INT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
4                       1.50              1.00              2.00        1000
8                       2.50              2.00              3.00        1000
more words
# OSU MPI Latency Test v7.4
# Size          Avg Latency(us)    P50 Tail Lat(us)
1                       1.25              1.00
# OSU MPI-CUDA Bi-Directional Bandwidth Test v7.4
# Size      Bandwidth (MB/s)
1024                 2048.00
# OSU MPI Barrier Latency Test v7.4
# Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
             9.25              9.00             10.00        1000
"""


def test_newer_heads_of_osu(tmp_path):
    found = read(NEWER, tmp_path)
    assert found["allreduce", None, None] == {4: pytest.approx(1.5e-6), 8: pytest.approx(2.5e-6)}
    assert found[PINGPONG, None, None] == {1: pytest.approx(1.25e-6)}
    assert found["barrier", None, None] == {0: pytest.approx(9.25e-6)}
    assert found["bidirectionalbandwidth", None, None] == {1024: pytest.approx(0.5e-6)}


@pytest.mark.parametrize(
    "text",
    [
        "op,bytes,median_s,p25_s\npingpong,64,2e-6,1e-6\n",
        "bytes,seconds\n64,2e-6\n",
        "test,bytes,seconds\nosu_latency,64,2e-6\n",
        "# made by hand\nsize;time_us\n64;2\n",
        "Size (B), Latency (us)\n64, 2.0\n",
        "benchmark,bytes,value,unit\nlatency,64,2.0,us\n",
        "operation\tsize\tt[usec]\npingpong\t64\t2.0\n".replace("t[usec]", "time_us"),
        "bytes,seconds\n64,1e-6\n64,2e-6\n64,5e-6\n",
        "MPI_Send,64,0.1,1e-6\nMPI_Recv,64,0.2,3e-6\n",
        '"MPI_Send",64,0.1,1e-6\n"MPI_Recv",64,0.2,3e-6\n',
        "\ufeffmedian_us,op,bytes\r\n2,pingpong,64\r\n\r\n",
        "size,t[usec]\n64,2\n",
        "bytes,repetitions,t_min[usec],t_max[usec],t_avg[usec],Mbytes/sec\n64,1000,1,3,2,32\n",
        "bytes,mean_us,median_us\n64,9,2\n",
        "Message Size (Bytes),Latency (\N{MICRO SIGN}s)\n64,2\n",
        "length,ns\n64,2000  # by hand\n",
        "#bytes,time_ms\n64,0.002\n",
        "# by a script\n# size seconds\n64  2e-6\n",
        "0: # OSU MPI Latency Test v5.8\n0: # Size          Latency (us)\n0: 64       2.00\n",
        "[1,0]<stdout>:# OSU MPI Latency Test\n[1,0]<stdout>:# Size   Latency (us)\n[1,0]<stdout>:64 2.00\n",
        "## J...median RTT/2\n64 - 0.1 0.1 0.1 0.3 (0.01 3) - 1.1 2.2 2.0 3.3 (0.1 2) - 2.4 6.4 6.6 7.2\n",
        "# Info: (0)\n64 - 0.1 0.1 0.1 0.3 - 1.1 2.2 2.0 3.3 - 2.4 6.4 6.6 7.2\n",
        "64 bytes \t -> 2.00 us \t == 256.00 Mbit/s\n",
        "# OMB-Py MPI Latency Test\n# Size (B)        Latency (us)\n64      2.00\n",
        "# MPI Latency Test\n# Size [B]        Latency [us]\n64      2.00\n",
        (
            "# MPI PingPong Test\n# Size [B]  Bandwidth [MB/s] | Time Mean [s] \N{PLUS-MINUS SIGN} StdDev [s] Samples\n"
            "        64              32.00 | 2.0000000e-06 \N{PLUS-MINUS SIGN} 1.6001e-08    10000\n"
        ),
        "# MPI PingPong Test\n        64              32.00 | 2.0000000e-06    10000\n",
        "    # OSU MPI Latency Test v7.5\n    # Size       Avg Latency(us)\n    64       2.00\n",
        ">> # OSU MPI Latency Test v5.8\n>> # Size          Latency (us)\n>> 64       2.00\n",
    ],
)
def test_tables_and_raw_lines(text: str, tmp_path):
    assert read(text, tmp_path) == {(PINGPONG, None, None): {64: pytest.approx(2e-6)}}


def test_collectives_have_the_names_of_osu(tmp_path):
    names = {"Broadcast": "bcast", "All-to-All Personalized Exchange": "alltoall", "Barrier": "barrier"}
    text = "".join(f"# OSU MPI {name} Latency Test v7.0\n# Size  Avg Latency(us)\n8  2.00\n" for name in names)
    assert {name for name, *_ in read(text, tmp_path)} == set(names.values())


def test_a_second_table_is_a_second_run(tmp_path):
    """Also where its head was cut off, as notes of courses have it."""
    (tmp_path / "file").write_text(
        "# OSU MPI Latency Test v5.6\n# Size  Latency (us)\n64 1.60\n128 1.61\n\n$ again\n64 0.40\n128 0.40\n"
    )
    assert [dict(each.seconds) for each in read_measurements(str(tmp_path / "file"))] == [
        {64: pytest.approx(1.6e-6), 128: pytest.approx(1.61e-6)},
        {64: pytest.approx(0.4e-6), 128: pytest.approx(0.4e-6)},
    ]


MORE = """\
# OSU MPI_Put Latency Test v5.8
# Size          Latency (us)
1                       2.35
# OSU MPI Multiple Bandwidth / Message Rate Test v5.8
# [ pairs: 1 ] [ window size: 64 ]
# Size                  MB/s        Messages/s
64                     32.00        500000.00
# OSU MPI Multiple Bandwidth / Message Rate Test v7.4
# [ pairs: 4 ] [ window size: 64 ]
# Size       Bandwidth (MB/s)        Message Rate (Messages/s)
64                    128.00       2000000.00
# OSU MPI Non-blocking Alltoall Latency Test v5.8
# Size           Overall(us)       Compute(us)    Pure Comm.(us)    Overlap(%)
1                      10.50              5.11             5.2            55.5
# OSU MPI Multi Latency Test v5.8
# Size          Latency (us)
0                       1.81
"""


def test_other_benchmarks_are_no_ping_pong(tmp_path):
    assert {name: seconds for (name, *_), seconds in read(MORE, tmp_path).items()} == {
        "put": {1: pytest.approx(2.35e-6)},
        STREAM: {64: pytest.approx(2e-6)},
        "mbwmr": {64: pytest.approx(0.5e-6)},
        "nonblockingalltoall": {1: pytest.approx(10.5e-6)},
        "multi": {0: pytest.approx(1.81e-6)},
    }


def test_a_column_of_a_rate_is_a_stream(tmp_path):
    assert read("bytes,bandwidth (MB/s)\n64,32\n", tmp_path) == {(STREAM, None, None): {64: pytest.approx(2e-6)}}


def test_what_imb_had_no_memory_for_is_passed_over(tmp_path):
    head = "# Benchmarking PingPong\n# #processes = 2\n #bytes #repetitions t[usec] Mbytes/sec\n"
    found = read(head + " 64 1000 2.00 32.00\n 128 1 int-overflow.; The\n 256 out-of-mem.; needed X= 1 GB\n", tmp_path)
    assert found == {(PINGPONG, 2, None): {64: pytest.approx(2e-6)}}


def test_raw_overheads(tmp_path):
    found = read("MPI_Isend,8,0.1,1e-7\nMPI_Isend,8,0.2,3e-7\nMPI_Recv,16,0.3,0\n", tmp_path)
    assert found == {(ISEND, None, None): {8: pytest.approx(2e-7)}, (RECV, None, None): {16: 0.0}}


def test_layers_of_the_probe(tmp_path):
    text = "layer,op,bytes,median_s\nnetwork,pingpong,1,2e-6\nsame_node,pingpong,1,1e-6\n"
    assert read(text, tmp_path) == {(PINGPONG, None, "network"): {1: 2e-6}, (PINGPONG, None, "same_node"): {1: 1e-6}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", r":1: unknown format; expected output of OSU"),
        ("", r":1: unknown format"),
        ("# OSU MPI Latency Test v5.8\n# Size          Latency (us)\n", ": no measurement below the header"),
        (
            "# OSU MPI Latency Test\n# Size   Latency (us)\n1  2\n2  fast\n",
            r":4: expected a time above zero, got 'fast'",
        ),
        ("# OSU MPI Latency Test\n# Size   Latency (us)\n1\n", ":3: expected at least 2 columns, got 1"),
        ("# OSU MPI Latency Test\n# Size   Latency (us)\n-1 2\n", ":3: expected a whole number of bytes, got '-1'"),
        (
            "# Benchmarking PingPong\n #bytes #repetitions t[usec] Mbytes/sec\n 0 1000\n",
            ":3: expected 4 numbers .*, got 2",
        ),
        ("op,bytes\npingpong,1\n", r":1: expected a header such as op,bytes,median_s .*, got 'op,bytes'"),
        ("bytes,seconds\n1,nan\n", ":2: expected a time above zero, got 'nan'"),
        ("bytes,seconds\n1,1e308\n", ":2: '1e308' is out of range"),
        ("Size,Latency\n1,2\n", ":1: missing unit of 'latency'; write for example latency_us"),
        ("n,time\n1,2\n", ":1: missing unit of 'time'"),
        ("bytes,seconds\n1,0\n", ":2: expected a time above zero, got '0'"),
        ("bytes,seconds\n1.5,1\n", ":2: expected a whole number of bytes, got '1.5'"),
        ("bytes,seconds\n1\n", ":2: expected 2 fields .*bytes, seconds.*, got 1"),
        ("bytes,value,unit\n1,1,parsec\n", ":2: unknown unit 'parsec'"),
        ("layer,bytes,seconds\nmoon,1,1\n", ":2: expected network or same_node, got 'moon'"),
        ("MPI_Send,1,0.1,1e-6\nMPI_Recv,1,0.1\n", ":2: expected operation,bytes,start_s,duration_s, got 3"),
        ("# size n PRTT(1,0,s)\n1 10\n", ":2: expected netgauge's columns size, n and PRTT"),
        ("# size n PRTT(1,0,s)\n1 10 -nan\n", ": no measurement below"),
        ("# size n PRTT(1,0,s)\n1 10 x\n", ":2: expected PRTT.* in microseconds, got 'x'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str, tmp_path):
    with pytest.raises(ConfigError, match=f"file{said}"):
        read(text, tmp_path)


def test_a_file_that_is_not_there():
    with pytest.raises(ConfigError, match=r"nowhere\.txt: No such file"):
        read_measurements("nowhere.txt")


def test_no_text(tmp_path):
    (tmp_path / "file").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a text file"):
        read_measurements(str(tmp_path / "file"))
