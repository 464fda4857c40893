import io
import json

import pytest

from tests.report.helpers import make_trace
from xsim_py import simulate
from xsim_py.report.perfetto import write_perfetto

NODES = [0, 0, 1]


def written(trace, **options):
    file = io.StringIO()
    left_out = write_perfetto(trace, file, nodes=NODES, **options)
    return json.loads(file.getvalue()), left_out, file.getvalue()


def of_phase(events, phase):
    return [event for event in events if event["ph"] == phase]


def test_nodes_are_processes_and_ranks_are_threads():
    whole, _, _ = written(make_trace())
    named = {(e["name"], e["pid"], e.get("tid")): e["args"] for e in of_phase(whole["traceEvents"], "M")}
    assert named["process_name", 2, None] == {"name": "node 1"}
    assert named["thread_name", 1, 2] == {"name": "rank 1"}
    assert named["thread_sort_index", 2, 3] == {"sort_index": 2}
    assert len(named) == 2 * (2 + 3)


def test_every_picosecond_of_a_call_is_in_the_file():
    whole, left_out, text = written(make_trace())
    assert left_out == 0
    assert '"ts":0.000001,"name":"Send","cat":"call","dur":2.000003' in text
    calls = of_phase(whole["traceEvents"], "X")
    assert [(e["name"], e["tid"]) for e in calls] == [("Send", 1), ("Recv", 2), ("Recv", 3), ("Barrier", 2)]
    assert calls[3]["args"] == {"detail": "ERR_PROC_FAILED"}


def test_times_beyond_the_precision_of_floats_stay_exact():
    trace = make_trace(shift_ps=10**17)
    assert '"ts":100000000000.000001,' in written(trace)[2]


def test_an_arrow_begins_in_the_call_that_sends_and_ends_in_the_call_that_takes():
    events = written(make_trace())[0]["traceEvents"]
    calls = {event["tid"]: event for event in reversed(of_phase(events, "X"))}
    (start,), (end,) = of_phase(events, "s"), of_phase(events, "f")
    assert start["id"] == end["id"]
    assert (start["tid"], end["tid"], end["bp"]) == (1, 2, "e")
    for event in (start, end):
        call = calls[event["tid"]]
        assert call["ts"] <= event["ts"] < call["ts"] + call["dur"]
    assert start["args"]["sent"] == "5.000000 us"


def test_a_message_that_nobody_took_has_no_arrow():
    assert len(make_trace().messages) == 2
    assert len(of_phase(written(make_trace())[0]["traceEvents"], "s")) == 1


def test_marks_are_instants():
    (mark,) = of_phase(written(make_trace())[0]["traceEvents"], "i")
    assert (mark["name"], mark["tid"], mark["ts"], mark["args"]) == ("failed", 3, 9.0, {"text": "injected"})


@pytest.mark.parametrize(("most", "kept"), [(3, 3), (4, 4), (6, 6), (7, 7), (100, 7)])
def test_what_is_too_much_is_left_out_from_the_end(most, kept):
    whole, left_out, _ = written(make_trace(), most_events=most)
    assert left_out == 7 - kept
    assert len(of_phase(whole["traceEvents"], "X")) <= kept


@pytest.mark.parametrize(("end_ps", "last_us"), [(0, 12.0), (15_000_000, 15.0)])
def test_a_call_without_end_lasts_until_the_end_of_the_run(end_ps, last_us):
    trace = make_trace()
    trace.spans[2] = trace.spans[2]._replace(end_ps=None)
    calls = of_phase(written(trace, end_ps=end_ps)[0]["traceEvents"], "X")
    assert calls[2]["ts"] + calls[2]["dur"] == pytest.approx(last_us)


def test_calls_of_a_real_run_do_not_overlap():
    def program():
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        for peer in range(comm.size):
            comm.isend("x", peer)
        for peer in range(comm.size):
            comm.recv(source=peer)

    file = io.StringIO()
    result = simulate(program, ranks=3, trace=True)
    assert result.to_perfetto(file) == 0
    whole = json.loads(file.getvalue())
    assert whole["otherData"]["digest"] == result.digest
    free_at = {}
    for event in of_phase(whole["traceEvents"], "X"):
        assert event["ts"] >= free_at.get(event["tid"], 0) - 1e-9
        free_at[event["tid"]] = event["ts"] + event["dur"]
    flows = of_phase(whole["traceEvents"], "s")
    assert len(flows) == len(of_phase(whole["traceEvents"], "f")) == 9
