package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// property is a property of a plan: it has no copies, or a value is in a memory format.
type property struct {
	value  string // the name of the value; empty for the property no-copies
	format tensor.MemoryFormat
}

// propertyOf parses "no-copies", "VALUE=FORMAT" or "FORMAT(VALUE)".
func propertyOf(g *graph.Graph, text string) (property, error) {
	if text == "no-copies" {
		return property{}, nil
	}
	parsed := property{}
	format, afterParenthesis, isCall := strings.Cut(text, "(")
	if isCall && strings.HasSuffix(afterParenthesis, ")") {
		parsed.value = strings.TrimSuffix(afterParenthesis, ")")
	} else if equals := strings.LastIndexByte(text, '='); equals > 0 {
		parsed.value, format = text[:equals], text[equals+1:]
	}
	pin, err := graph.ParsePin(format) // ParsePin also accepts pins that are not memory formats
	if parsed.value == "" || err != nil || pin.Format == tensor.NoFormat {
		return parsed, fmt.Errorf("there is no property %q: want no-copies, VALUE=FORMAT or FORMAT(VALUE)", text)
	}
	parsed.format = pin.Format
	if g.Value(parsed.value) == nil {
		var names []string
		g.Values(func(v *graph.Value) { names = append(names, v.Name) })
		return parsed, fmt.Errorf("property %q: the graph has no value %q%s", text, parsed.value,
			suggest.DidYouMean(suggest.Nearest(parsed.value, slices.Values(names))))
	}
	return parsed, nil
}

// violation describes how a plan violates the property. It returns "" if the plan has the property.
func (p property) violation(plan *passes.Plan) string {
	if p.value == "" {
		if len(plan.Copies) == 0 {
			return ""
		}
		return fmt.Sprintf("%q is copied: %s", plan.Copies[0].Value, plan.Copies[0].Why)
	}
	switch v := plan.Graph.Value(p.value); {
	case v == nil:
		return fmt.Sprintf("%q is not in memory: it is computed within a step, or its readers read another value", p.value)
	case !v.Meta.Is(p.format):
		return fmt.Sprintf("%q is %v", p.value, v.Meta)
	}
	return ""
}
