"""JSON: what is RFC 8259 comes back byte for byte, and nothing else is taken."""

import json
import time

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.calls import append, assert_problem, body_of, new_id, payloads_of, post, recall, replay, stored

# -- Round trips ----------------------------------------------------------------------------------------------

BLANKS = st.text(alphabet=" \t\n\r", max_size=3)
NUMBERS = st.one_of(
    st.from_regex(r"-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"-?[1-9][0-9]{29}", fullmatch=True),
    st.sampled_from(["-0", "-0.0", "1.0", "1E400", "1e-400", "-1E+9999", "0e0", "1" * 400, "0.1000000000000000055"]),
)
PIECES = st.one_of(
    # Everything that may stand unescaped: not the controls below U+0020, quotes, backslashes and surrogates.
    st.characters(min_codepoint=0x20, exclude_characters='"\\', exclude_categories=["Cs"]),
    st.sampled_from([r"\"", r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t", r"\u0000", r"\u001F", r"\u007f"]),
    st.sampled_from([r"\uD83D\uDE00", r"\ud800\udc00", r"\uDBFF\uDFFF", r"\ufeff", r"\uFFFF", r"\u00e9", r"\u2028"]),
    st.sampled_from(["\U0001f600", "\U0010ffff", "\ufeff", "\uffff", "\x7f", "\u2028", "e\u0301", "\u202e"]),
)
STRINGS = st.lists(PIECES, max_size=8).map(lambda pieces: '"' + "".join(pieces) + '"')
SCALARS = st.one_of(st.sampled_from(["null", "true", "false"]), NUMBERS, STRINGS)


def in_blanks(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(BLANKS, parts, BLANKS).map("".join)


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        BLANKS.map(lambda blanks: f"[{blanks}]"),
        st.lists(in_blanks(values), min_size=1, max_size=4).map(lambda parts: f"[{','.join(parts)}]"),
    )


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    # Keys come from so few that some are given twice.
    keys = st.one_of(st.sampled_from(['"a"', '"b"', '""', r'"\u0061"']), STRINGS)
    members = st.tuples(in_blanks(keys), in_blanks(values)).map(":".join)
    return st.one_of(
        BLANKS.map(lambda blanks: f"{{{blanks}}}"),
        st.lists(members, min_size=1, max_size=4).map(lambda parts: f"{{{','.join(parts)}}}"),
    )


VALUES = st.recursive(SCALARS, lambda inner: st.one_of(arrays(inner), objects(inner)), max_leaves=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(payloads=st.lists(objects(VALUES), min_size=1, max_size=4), blanks=BLANKS)
def test_any_object_comes_back_byte_for_byte(client: httpx.Client, payloads: list[str], blanks: str) -> None:
    for payload in payloads:
        json.loads(payload)  # the generator writes JSON, as another implementation sees it
    conversation_id = new_id()
    response = append(client, conversation_id, *(blanks + payload + blanks for payload in payloads), key="k")
    assert response.status_code == 201, response.text
    assert payloads_of(recall(client, conversation_id)) == payloads
    assert payloads_of(replay(client, conversation_id)) == payloads
    assert append(client, conversation_id, *payloads, key="k").status_code == 200


@pytest.mark.parametrize(
    "payload",
    [
        '{"a":1,"a":2,"a":1}',
        '{"z":1,"a":2}',
        '{"a":123456789012345678901234567890.10}',
        '{"a":1E400,"b":-1e-400,"c":-0,"d":1.0}',
        '{"a":"\\u0000\\u001f\\/\\ud83d\\ude00"}',
        '{"a":"\x7f\ufeff\uffff\U0010ffff"}',
        '{\t"a" :\r\n[ ]\n}',
        '{"__proto__":{},"constructor":null}',
        '{"role":"system","content":"text"}',
        '{"items":[{"items":[]}],"seq":99,"recorded_at":"never","payload":{}}',
        '{"a":"%s %(id)s {} {0} $1 \\\\ \' \\" ; -- /*"}',
        "{}",
    ],
)
def test_odd_spellings_are_kept(client: httpx.Client, conversation_id: str, payload: str) -> None:
    append(client, conversation_id, payload, "{}", payload)
    assert stored(client, conversation_id) == [payload, "{}", payload]


@pytest.mark.parametrize("depth", [1, 128, 500])
def test_128_levels_and_more_are_taken(client: httpx.Client, conversation_id: str, depth: int) -> None:
    for payload in ('{"a":' * (depth - 1) + "{}" + "}" * (depth - 1), '{"a":' + "[" * depth + "]" * depth + "}"):
        response = append(client, conversation_id, payload)
        if depth <= 128 or response.status_code == 201:
            assert payloads_of(recall(client, conversation_id, count=1)) == [payload]
        else:
            assert_problem(response, "invalid_json")


# -- What is no JSON ------------------------------------------------------------------------------------------

HOSTILE: list[bytes] = [
    *(b'{"a":NaN}', b'{"a":Infinity}', b'{"a":-Infinity}', b'{"a":nan}', b'{"a":undefined}', b'{"a":True}'),
    *(b'{"a":1,}', b'{"a":[1,]}', b"{,}", b'{"a":[,1]}', b'{"a"}', b'{"a":}', b'{"a" 1}', b'{"a":1 "b":2}', b'{"a":1'),
    *(b"{a:1}", b"{'a':1}", b"{\"a\":'b'}", b"{1:1}", b"{null:1}"),
    *(b'{"a":01}', b'{"a":+1}', b'{"a":.5}', b'{"a":1.}', b'{"a":1e}', b'{"a":-}', b'{"a":0x1}', b'{"a":1_0}'),
    *(b'{"a":"\x00"}', b'{"a":"\x1f"}', b'{"a":"\t"}', b'{"a":"\n"}', b'{"\x01":1}', b'{\x0b"a":1}', b'{"a":1\x00}'),
    *(b'{"a":"\\x41"}', b'{"a":"\\u12"}', b'{"a":"\\u12G4"}', b'{"a":"\\U0001F600"}', b'{"a":"\\"}', b'{"a":"\\\'"}'),
    *(b'{"a":1/*c*/}', b'{"a":1}//c', b'{"a":1#c\n}', b'{"a":\xc2\xa01}', b'{"a":\xef\xbb\xbf1}'),
    # Half a surrogate pair is no character: high, low, twice, in the wrong order, in a key.
    *(b'{"a":"\\ud800"}', b'{"a":"\\udc00"}', b'{"a":"\\ud800\\ud800"}', b'{"a":"\\udc00\\ud800"}'),
    *(b'{"a":"\\ud800x"}', b'{"a":"\\ud800\\n"}', b'{"a":"\\ud800\\u0041"}', b'{"\\ud800":1}', b'{"\\udfff":1}'),
    # Bytes that are no UTF-8: alone, cut, overlong, beyond U+10FFFF, and surrogates encoded one by one.
    *(b'{"a":"\xff"}', b'{"a":"\x80"}', b'{"a":"\xe2\x82"}', b'{"a":"\xc0\x80"}', b'{"a":"\xf4\x90\x80\x80"}'),
    *(b'{"a":"\xed\xa0\xbd\xed\xb8\x80"}', b'{"\xff":1}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xe9"}'),
]


@pytest.mark.parametrize("item", HOSTILE, ids=repr)
def test_an_item_that_is_no_json_is_refused_and_stores_nothing(
    client: httpx.Client, conversation_id: str, item: bytes
) -> None:
    response = post(client, conversation_id, b'{"items":[{},' + item + b",{}]}")
    assert_problem(response, "invalid_json")
    assert stored(client, conversation_id) == []


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b" ",
            b"{",
            b'{"items":[{}]',
            b'{"items":[{}]}}',
            b'{"items":[{}]} x',
            b'{"items":[{}]}\x00',
            b"items=1",
        ),
        *(b'\xef\xbb\xbf{"items":[{}]}', b'{"items":[{}],}', b'{"items" [{}]}', b"\x1f\x8b\x08", b'{"items":[{}];}'),
        *('{"items":[{}]}'.encode(coding) for coding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")),
        b'{"items":[{}],"expected_seq":NaN}',
        b'{"items":[{}],"expected_seq":01}',
        b'{"items":[{}],"\\ud800":1}',
    ],
    ids=repr,
)
def test_a_body_that_is_no_json_is_refused(client: httpx.Client, conversation_id: str, body: bytes) -> None:
    assert_problem(post(client, conversation_id, body), "invalid_json")
    assert stored(client, conversation_id) == []


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 1_000_000,
        b'{"items":[{"a":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}]}",
        b'{"items":[' + b'{"a":' * 700_000,
        b'{"expected_seq":' + b"[" * 1_000_000,
        b'{"unknown":' + b'{"a":' * 700_000,
        b'{"unknown":1,"items":' + b"[" * 1_000_000,
    ],
    ids=["bare", "in an item", "objects", "in a field", "in an unknown field", "behind an unknown field"],
)
def test_a_million_brackets_are_refused_in_no_time(client: httpx.Client, conversation_id: str, body: bytes) -> None:
    started = time.monotonic()
    assert_problem(post(client, conversation_id, body), "invalid_json")
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"items":1,"expected_seq":NaN}',
        b'{"unknown":1,"items":[{]}',
        b'{"expected_seq":"1","items":[{}]',
        b'{"expected_seq":-1,"items":[{"a":"\\ud800"}]}',
        b'{"expected_seq":-1,"items":[{"a":"\xff"}]}',
        b"[1,]",
        b'"\\ud800"',
    ],
)
def test_text_that_is_no_json_is_said_before_a_field_that_does_not_fit(
    client: httpx.Client, conversation_id: str, body: bytes
) -> None:
    assert_problem(post(client, conversation_id, body), "invalid_json")


# -- The envelope ---------------------------------------------------------------------------------------------


def test_of_a_key_given_twice_the_last_counts(client: httpx.Client, conversation_id: str) -> None:
    assert post(client, conversation_id, b'{"items":[{"a":1}],"items":[{"a":2}]}').status_code == 201
    assert post(client, conversation_id, b'{"expected_seq":9,"items":[{}],"expected_seq":1}').status_code == 201
    # The one that does not count may be anything.
    assert post(client, conversation_id, b'{"items":7,"items":[{"a":3}]}').status_code == 201
    assert post(client, conversation_id, b'{"expected_seq":"x","items":[{}],"expected_seq":3}').status_code == 201
    assert post(client, conversation_id, b'{"items":[1],"items":[{"a":5}]}').status_code == 201
    assert_problem(post(client, conversation_id, b'{"items":[{}],"items":[]}'), "empty_batch")
    assert_problem(post(client, conversation_id, b'{"items":[{}],"items":7}'), "validation_failed", field="/items")
    assert stored(client, conversation_id) == ['{"a":2}', "{}", '{"a":3}', "{}", '{"a":5}']


def test_an_escaped_key_is_the_same_key(client: httpx.Client, conversation_id: str) -> None:
    assert post(client, conversation_id, b'{"it\\u0065ms":[{}]}').status_code == 201


@pytest.mark.parametrize(
    "name", ["Items", "items ", "", "a/b~c", "\u20ac", "`x` - at `$.items[3]`", "\0", "x" * 300_000]
)
def test_an_unknown_field_is_named_in_few_words(client: httpx.Client, conversation_id: str, name: str) -> None:
    body = body_of("{}")[:-1] + f",{json.dumps(name)}:1}}".encode()
    response = post(client, conversation_id, body)
    problem = assert_problem(response, "validation_failed")
    assert len(response.content) < 2000
    if len(name) < 100:
        assert problem["field"] == "/" + name.replace("~", "~0").replace("/", "~1")
