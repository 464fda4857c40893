"""What a process has printed is found where it died."""

from xsim_py.process.output.last_lines import SIZE_BYTES, Journal, last_lines, memory_for


def test_lines_are_found_by_another_until_they_are_sent():
    memory = memory_for(2)
    journal = Journal(memory, 1)
    lines = [(5, 3, 1, 0, "über\n"), (5, 3, 2, 1, "\udcff\n")]
    for line in lines:
        journal.add(line)
    assert (last_lines(memory, 0), last_lines(memory, 1)) == ([], lines)
    journal.forget()
    assert last_lines(memory, 1) == []


def test_a_line_without_an_end_stays_until_it_has_one():
    memory = memory_for(1)
    journal = Journal(memory, 0)
    journal.begin(1, 3, 0, "a")
    journal.begin(2, 3, 0, "ab")
    journal.forget()
    assert [line[4] for line in last_lines(memory, 0)] == ["ab"]
    journal.add((3, 3, 1, 0, "abc\n"))
    assert [line[4] for line in last_lines(memory, 0)] == ["abc\n"]
    journal.forget()
    assert last_lines(memory, 0) == []


def test_what_has_no_room_is_left_out_to_the_next_window():
    memory = memory_for(1)
    journal = Journal(memory, 0)
    for text in ("a", "b" * SIZE_BYTES, "c"):
        journal.add((1, 0, 1, 0, text))
    assert [line[4] for line in last_lines(memory, 0)] == ["a"]
    journal.forget()
    journal.add((2, 0, 4, 0, "d"))
    assert [line[4] for line in last_lines(memory, 0)] == ["d"]
