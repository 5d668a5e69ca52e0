"""The ends of streams, as a session sees them: without a server."""

import numpy as np

from gemmd import _encoded, _layout, errors
from gemmd._messages import MatmulStreamResponse
from gemmd._session import Request, Session
from gemmd.retry import NO_PUSHBACK, Pushback


def draining():
    error = errors.Unavailable("the server is draining")
    error.is_draining = True
    return error


def cancelled():
    error = errors.Unavailable("the proxy's words")
    error.was_cancelled = True
    return error


def opened(streams):
    """A session whose streams have all joined."""
    session = Session(streams)
    session.next(0)
    session.received(0, MatmulStreamResponse(opened={"session": b"one"}).SerializeToString())
    for stream in range(1, streams):
        session.next(stream)
        session.received(stream, MatmulStreamResponse(joined={}).SerializeToString())
    return session


def begun(session, ended):
    d = np.zeros((1, 2), "f4")
    plane = _layout.Plane(2, 1, 2)
    encoded = _encoded.Encoded(lambda: ((None,) * 4, None), None, [], plane, d, memoryview(d).cast("B"), ())
    request = Request(encoded, 4096, 4096, lambda: 0, lambda *end: ended.append(end))
    session.start(request)
    return request


def tell(ends):
    for each in ends:
        each.tell()


def test_what_a_draining_server_has_sent_over_another_stream_counts():
    session, ended = opened(3), []
    begun(session, ended)
    tell(session.ended(0, draining(), NO_PUSHBACK))
    tell(session.ended(2, draining(), NO_PUSHBACK))
    assert not session.is_accepting
    assert ended == []
    assert session.reason is None
    tell(session.ended(1, draining(), Pushback(seconds=1)))
    assert [(type(error), pushback) for _, error, pushback in ended] == [(errors.Unavailable, NO_PUSHBACK)]
    assert session.reason.message == "the server is draining"


def test_a_drained_session_ends_with_its_last_request():
    session, ended = opened(2), []
    request = begun(session, ended)
    tell(session.ended(0, draining(), NO_PUSHBACK))
    tell(session.cancel(request, errors.Cancelled("enough")))
    assert session.reason is not None
    assert [type(error) for _, error, _ in ended] == [errors.Cancelled]


def test_a_stream_that_breaks_ends_all_though_another_was_drained():
    session, ended = opened(3), []
    begun(session, ended)
    tell(session.ended(0, draining(), NO_PUSHBACK))
    tell(session.ended(1, errors.Unavailable("reset"), NO_PUSHBACK))
    assert [error.message for _, error, _ in ended] == ["the server is draining"]


def test_a_join_that_is_refused_asks_for_one_connection():
    for error in (errors.NotFound("no such session"), errors.ResourceExhausted("too many"), cancelled()):
        session, ended = Session(2), []
        begun(session, ended)
        tell(session.ended(1, error, Pushback(seconds=9)))
        assert session.refused_streams
        assert [(type(end), pushback) for _, end, pushback in ended] == [(errors.Unavailable, NO_PUSHBACK)]
        assert error.message in ended[0][1].message


def test_a_cancelled_stream_that_had_joined_is_no_refusal():
    for stream in (0, 1):
        session = opened(2)
        tell(session.ended(stream, cancelled(), NO_PUSHBACK))
        assert not session.refused_streams
