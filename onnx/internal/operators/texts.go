package operators

import (
	"github.com/graphrun/graphrun/graph"
)

// This file converts the operators that compute strings. Strings are codes: see [convert.Node.MarkStrings].

// castToText returns x, numbers or strings, as strings.
func castToText(n *node, x *value) *value {
	if x.HasStrings() {
		return x
	}
	return markText(n, n.Op("number_to_string", nil, x))
}

// markText returns x, marked as strings.
func markText(n *node, x *value) *value {
	const isText = true
	return n.MarkStrings(x, isText)
}

// textOperand returns operand i, which must be strings.
func textOperand(n *node, i int) *value {
	x := n.Operand(i)
	if !x.HasStrings() {
		n.Failf("operand %d has %s: it must have strings", i, x.DType())
	}
	return x
}

// stringConcat converts StringConcat.
func stringConcat(n *node) []*value {
	return single(markText(n, n.Op("string_concat", nil, textOperand(n, 0), textOperand(n, 1))))
}

// stringSplit converts StringSplit, whose results are the pieces and their numbers.
func stringSplit(n *node) []*value {
	attrs := graph.Attrs{"delimiter": n.Text("delimiter", "")}
	if n.HasAttr("maxsplit") {
		attrs["maxsplit"] = n.Int("maxsplit", 0)
	}
	out := n.Ops("string_split", attrs, textOperand(n, 0))
	return []*value{markText(n, out[0]), out[1]}
}

// stringNormalizer converts StringNormalizer, which removes stop words and changes the case.
func stringNormalizer(n *node) []*value {
	changes := map[string]string{"NONE": "none", "LOWER": "lower", "UPPER": "upper"}
	letters, ok := changes[n.Text("case_change_action", "NONE")]
	if !ok {
		n.Failf("case_change_action is %q, want NONE, LOWER or UPPER", n.Text("case_change_action", ""))
	}
	attrs := graph.Attrs{"case": letters, "case_sensitive": n.Flag("is_case_sensitive", false),
		"locale": n.Text("locale", "")}
	var stopwords any
	if list, _ := n.Strings("stopwords"); len(list) > 0 {
		stopwords = n.StringCodes(list...)
	}
	return single(markText(n, n.Op("string_normalize", attrs, textOperand(n, 0), stopwords)))
}

// regexFullMatch converts RegexFullMatch.
func regexFullMatch(n *node) []*value {
	return single(n.Op("string_full_match", graph.Attrs{"pattern": n.Text("pattern", "")}, textOperand(n, 0)))
}
