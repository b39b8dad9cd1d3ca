import copy
import json
import pickle

import orjson
import pytest

from openclaw.secrets.refs import Secret

VALUE = "correct-horse-battery"


def test_only_reveal_gives_the_value() -> None:
    assert Secret(VALUE).reveal() == VALUE


def test_repr_and_containers_show_no_value() -> None:
    secret = Secret(VALUE)
    assert repr(secret) == "Secret([REDACTED])"
    assert VALUE not in repr({"env": [secret]})
    assert VALUE not in "%r" % (secret,)  # noqa: UP031 - as logging does it
    assert not hasattr(secret, "__dict__")


def test_text_that_would_hold_a_placeholder_cannot_be_made() -> None:
    secret = Secret(VALUE)
    with pytest.raises(TypeError, match=r"reveal"):
        str(secret)
    with pytest.raises(TypeError, match=r"reveal"):
        f"Bearer {secret}"
    with pytest.raises(TypeError, match=r"reveal"):
        "{}".format(secret)  # noqa: UP032 - another way to format


def test_no_serializer_takes_it() -> None:
    secret = Secret(VALUE)
    with pytest.raises(TypeError):
        json.dumps({"a": secret})
    with pytest.raises(TypeError):
        orjson.dumps({"a": secret})
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(secret)


def test_copies_are_the_same_object() -> None:
    secret = Secret(VALUE)
    assert copy.copy(secret) is secret
    assert copy.deepcopy([secret])[0] is secret


def test_equal_values_are_equal_and_nothing_else_is() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert len({Secret(VALUE), Secret(VALUE)}) == 1
    assert Secret(VALUE) != Secret("other")
    assert Secret(VALUE) != VALUE
    assert Secret("x")
    assert not Secret("")
