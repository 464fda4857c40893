import time

import numpy as np
import pytest

from tests.report.helpers import make_result
from tests.report.page.helpers import figures, own, shown
from xsim_py import simulate
from xsim_py.config import config_hash, load_machine
from xsim_py.report import Result, Table
from xsim_py.report.page import run_page

MACHINE = {"machine": {"cores_per_node": 2}, "network": {"latency": "2us", "bandwidth": "1GBps"}}


def ring(more=0):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    time.sleep(1e-6 * comm.rank)
    comm.send(bytes(10 + comm.rank), dest=(comm.rank + 1) % comm.size)
    comm.recv(source=(comm.rank - 1) % comm.size)
    comm.allreduce(more)


def run(**more):
    return simulate(ring, ranks=6, machine=MACHINE, trace=True, **more)


@pytest.fixture(scope="module")
def result():
    return run(fail="rank=4@4us", ft=True, seed=3, set={"network.latency": "3us"})


def dense(told):
    cells = np.zeros((told["size"], told["size"]), int)
    for row, column, value in told["cells"]:
        cells[row, column] = value
    return cells.tolist()


def test_the_same_run_gives_the_same_page(tmp_path):
    for name in ("a", "b"):
        run().to_html(tmp_path / f"{name}.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_saved_run_gives_the_same_page(tmp_path, result):
    result.to_html(tmp_path / "a.html")
    result.save(tmp_path / "saved")
    loaded = Result.load(tmp_path / "saved")
    loaded.to_html(tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert loaded.timeline_text() == result.timeline_text()


def test_says_what_came_of_it_and_all_that_repeats_it(tmp_path, result):
    result.to_html(tmp_path / "page.html")
    text = shown(own(tmp_path / "page.html"))
    for fact in (result.virtual_time(), result.digest, result.config_hash, "xsim_py 0.1.0", result.machine):
        assert fact in text
    assert "simulate(ring, ranks=6, machine=..., seed=3, set={'network.latency': '3us'}, fail='rank=4@4us'" in text
    assert "injected: rank=4@4us" in text
    assert "cpu" not in text.lower().replace("computing", "")  # what is never the same twice


def test_the_description_of_the_machine_is_that_of_the_run(tmp_path):
    done = run(set={"network.latency": "3us"})
    (tmp_path / "again.yaml").write_text(done.origin["machine"])
    again = simulate(ring, ranks=6, machine=tmp_path / "again.yaml")
    assert (again.config_hash, again.digest) == (done.config_hash, done.digest)
    assert config_hash(load_machine("gige")) != done.config_hash


def test_matrices_hold_what_was_counted_and_what_the_trace_says(tmp_path):
    done = run()
    done.to_html(tmp_path / "a.html")
    told = figures(own(tmp_path / "a.html"))[-1]
    by_title = {each["title"]: dense(each) for each in told}
    expected = np.zeros((6, 6), int)
    pairs = done.tables["pairs"]
    for source, dest, size in zip(pairs["source"], pairs["dest"], pairs["bytes"], strict=True):
        expected[source, dest] += size
    assert by_title["bytes between ranks"] == expected.tolist()
    assert by_title["bytes between nodes"] == expected.reshape(3, 2, 3, 2).sum(axis=(1, 3)).tolist()
    assert np.sum(by_title["messages between ranks"]) == done.messages
    done.tables["pairs"] = Table("pairs", {name: [] for name in pairs})  # as in runs of more than 1,024 ranks
    done.to_html(tmp_path / "b.html")
    assert figures(own(tmp_path / "b.html"))[-1] == told


def test_neighbours_share_a_cell_where_there_are_many(tmp_path, monkeypatch):
    done = run()
    monkeypatch.setattr(run_page, "MOST_CELLS", 3)
    done.to_html(tmp_path / "a.html")
    told = {each["title"]: each for each in figures(own(tmp_path / "a.html"))[-1]}
    summed = told["bytes between ranks"]
    assert (summed["size"], summed["each"]) == (6, 2)
    assert summed["cells"] == told["bytes between nodes"]["cells"]  # of two neighbours each
    assert "A cell is the sum over 2 times 2 neighbours." in shown(own(tmp_path / "a.html"))


def test_who_learnt_of_a_failure_when(tmp_path, result):
    result.to_html(tmp_path / "page.html")
    figure = next(each for each in figures(own(tmp_path / "page.html")) if "rank 4, by" in str(each))
    learned = result.tables["learned"]
    drawn = {
        (rank, round(since * 1e6)): trace["name"]
        for trace in figure["data"]
        for rank, since in zip(trace["y"], trace["x"], strict=True)
    }
    unit_ps = 1 if "[us]" in figure["layout"]["xaxis"]["title"]["text"] else 1000
    expected = {
        (rank, round((time_ps - 4_000_000) / unit_ps))
        for rank, time_ps in zip(learned["rank"], learned.picoseconds["time_s"], strict=True)
    }
    assert set(drawn) == expected
    assert len(learned) >= 2


def test_links_are_shown_where_their_load_was_counted(tmp_path):
    done = run()
    done.tables["links"] = Table("links", {"link": ["h0>s", "s>h1"], "bytes": [5, 7]}, {"bytes": "B"})
    done.to_html(tmp_path / "page.html")
    text = own(tmp_path / "page.html")
    assert "Load of links" in text
    assert next(each["data"][0]["x"] for each in figures(text) if "s&gt;h1" in str(each)) == ["s&gt;h1", "h0&gt;s"]


def test_a_result_without_a_trace_and_tables_has_a_page_too(tmp_path):
    done = make_result(ended="stalled", report="rank 0 waits <for> ever", warnings=["one & two"])
    done.to_html(tmp_path / "page.html")
    text = shown(own(tmp_path / "page.html"))
    assert "rank 0 waits <for> ever" in text
    assert "one & two" in text
    assert "The run was not traced" in text
