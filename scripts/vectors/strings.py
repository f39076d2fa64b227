"""Operators on strings. Python's string methods give the expected values."""
import re

import numpy as np

from case import f, graph, helper, i64, ints, op, scalar


def split(texts, delimiter=None, maxsplit=-1):
    pieces = [t.split(delimiter, maxsplit) for t in texts.ravel()]
    longest = max([len(p) for p in pieces], default=0)
    rows = [p + [""] * (longest - len(p)) for p in pieces]
    return np.array(rows, dtype=str).reshape(texts.shape + (longest,)), i64(*map(len, pieces)).reshape(texts.shape)


words = np.array([["blue", "", "Grün"], ["a b", "naïve", "東京"]])
ends = np.array(["!", "", " cat"])
op("StringConcat", [words, ends], np.char.add(words, ends), opset=20)
op("StringConcat", [words[:, :1], ends], np.char.add(words[:, :1], ends), opset=20, name="both broadcast")
op("StringConcat", [words, np.array("s")], np.char.add(words, "s"), opset=20, name="scalar")
same = np.array(["x", "x", "y"])
op("StringConcat", [same, same], np.char.add(same, same), opset=20, name="repeated")

lines = np.array([["  two  words ", "one"], ["", "three\twords\nhere"]])
op("StringSplit", [lines], split(lines), opset=20, name="space")
op("StringSplit", [lines], split(lines, None, 1), opset=20, name="space once", maxsplit=1)
paths = np.array(["a,b,,c", "", ",", "abc"])
op("StringSplit", [paths], split(paths, ","), opset=20, name="comma", delimiter=",")
op("StringSplit", [paths], split(paths, ",", 2), opset=20, name="comma twice", delimiter=",", maxsplit=2)
op("StringSplit", [paths], split(paths, None), opset=20, name="empty delimiter", delimiter="")
op("StringSplit", [np.array(["a::b:c", "::"])], split(np.array(["a::b:c", "::"]), "::"), opset=20, name="two letters",
   delimiter="::")
op("StringSplit", [np.array("x y")], split(np.array("x y")), opset=20, name="scalar")

days = np.array(["Monday", "tuesday", "Friday", "monday"])
op("StringNormalizer", [days], days, opset=10, name="nothing")
op("StringNormalizer", [days], np.array(["TUESDAY", "FRIDAY"]), opset=10, name="stop words in any case",
   case_change_action="UPPER", stopwords=["MONDAY"], is_case_sensitive=0)
op("StringNormalizer", [days], np.array(["monday", "friday"]), opset=10, name="stop words as they are",
   case_change_action="LOWER", stopwords=["monday", "tuesday"], is_case_sensitive=1)
op("StringNormalizer", [days[None]], np.array([["tuesday", "Friday"]]), opset=10, name="a row",
   stopwords=["monday"], is_case_sensitive=0, locale="en_US")
op("StringNormalizer", [days[:1]], np.array([""]), opset=10, name="nothing left", stopwords=["Monday"],
   is_case_sensitive=1)

mails = np.array([["a@b.org", "a@b.orgs", "@b.org"], ["A@b.org", "a.c@b.org\n", ""]])
pattern = r"[a-z.]+@[a-z]+\.org|"
matches = np.array([[re.fullmatch(pattern, t) is not None for t in row] for row in mails])
op("RegexFullMatch", [mails], matches, opset=20, pattern=pattern)

numbers = np.array(["1", "-2.5", "1e3", " 7 ", "+INF", "-inf", "NaN", "3.4028235e38"])
for dtype, to in ((np.float32, 1), (np.float64, 11), (np.float16, 10)):
    op("Cast", [numbers], numbers.astype(dtype), opset=19, name="to %s" % np.dtype(dtype).name, to=to)
whole = np.array([["1", "-27"], ["+127", "0"]])
for dtype, to in ((np.int64, 7), (np.int32, 6), (np.int8, 3)):
    op("Cast", [whole], whole.astype(dtype), opset=19, name="to %s" % np.dtype(dtype).name, to=to)
op("Cast", [np.array(["18446744073709551615", "0"])], np.array([2**64 - 1, 0], np.uint64), opset=19,
   name="to uint64", to=13)
op("Cast", [whole], whole, opset=19, name="to strings", to=8)
op("Cast", [ints(2, 3)], lambda x: x.astype(str), opset=19, name="from int64", to=8)
op("Cast", [np.array([True, False])], np.array(["1", "0"]), opset=19, name="from bool", to=8)
floats = f(2, 3, low=0.01, high=0.99)
op("Cast", [floats], floats.astype(str), opset=19, name="from float32", to=8)
some = np.array([0.1, -1.5e-7, 2.5e17, 3, np.inf, -np.inf, np.nan])
op("Cast", [some], np.array(["0.1", "-1.5e-07", "2.5e+17", "3", "INF", "-INF", "NaN"]), opset=19, name="from float64",
   to=8)
op("CastLike", [whole, scalar(0, np.float32)], whole.astype(np.float32), opset=19, name="to numbers")
op("CastLike", [ints(3), np.array("")], lambda x, _: x.astype(str), opset=19, name="to strings")

none = np.array([[]] * 2, str)
op("StringConcat", [none, np.array(["a"])], none, opset=20, name="no elements")
op("StringSplit", [none], split(none), opset=20, name="no elements")
op("StringNormalizer", [none[0]], none[0], opset=10, name="no elements", case_change_action="LOWER")
op("RegexFullMatch", [none], np.zeros((2, 0), bool), opset=20, name="no elements", pattern="a")
op("Cast", [none], np.zeros((2, 0), np.float32), opset=19, name="no elements", to=1)

# Pieces of unknown strings are compared with strings of the model, and counted.
nodes = [helper.make_node("StringNormalizer", ["x"], ["lower"], case_change_action="LOWER", stopwords=["the"]),
         helper.make_node("TfIdfVectorizer", ["lower"], ["y"], mode="TF", min_gram_length=1, max_gram_length=1,
                          max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 1, 2],
                          pool_strings=["cat", "dog", "sat"])]
graph("normalize and count", nodes, {"x": np.array(["The", "Cat", "sat", "SAT", "mat"])},
      {"y": np.array([1, 0, 2], np.float32)})
nodes = [helper.make_node("StringSplit", ["x"], ["pieces", "n"], delimiter="="),
         helper.make_node("Gather", ["pieces", "zero"], ["key"], axis=1),
         helper.make_node("Gather", ["pieces", "one"], ["text"], axis=1),
         helper.make_node("Cast", ["text"], ["value"], to=1),
         helper.make_node("Mul", ["value", "two"], ["twice"]),
         helper.make_node("Cast", ["twice"], ["digits"], to=8),
         helper.make_node("StringConcat", ["key", "digits"], ["y"])]
graph("split, compute and join", nodes, {"x": np.array(["a=1", "b=2.25", "a=-3"])},
      {"y": np.array(["a2", "b4.5", "a-6"]), "twice": np.array([2, 4.5, -6], np.float32)}, opset=20,
      known={"zero": scalar(0), "one": scalar(1), "two": scalar(2, np.float32)}, open_sizes={"x": {0: "N"}})
