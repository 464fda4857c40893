"""What is counted of messages as they are sent."""

from xsim_py.mpi.transport.tally import Tally


def test_a_signal_in_the_middle_of_an_entry():
    tally = Tally(range(2), pairs=True)
    tally.log += [0, 1, 8, 1]
    assert tally.messages() == [1, 0]
    assert tally.sent_bytes() == [8, 0]
    tally.log += [1, 0, 3]
    assert tally.messages() == [1, 1]
