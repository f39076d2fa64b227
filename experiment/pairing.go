package experiment

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// pairing matches values of two graphs by content: equal operands and ops, or equal readers. Names distinguish values
// of equal content, and match the remaining values. For example, in the graphs
//
//	first graph:  a = conv(x, w)   b = relu(a)   c = add(b, x)
//	second graph: p = conv(x, w)   q = gelu(p)   r = add(q, x)
//
// a matches p, because both are computed in the same way. c matches r, because both are sums with the same uses. b and
// q have no match.
type pairing struct {
	matchInSecond map[*graph.Value]*graph.Value // for each value of the first graph: its match
	matchInFirst  map[*graph.Value]*graph.Value // for each value of the second graph: its match
}

// matchValues matches the values of two sorted graphs in three passes. It matches values that are computed in the same
// way from matching operands, then values with equal uses, then values with equal name and op. Names come last because
// exporters number values, so that the same name may denote different values. For two sizes of one graph (resized),
// names come first.
func matchValues(a, b *graph.Graph, resized bool) *pairing {
	p := &pairing{map[*graph.Value]*graph.Value{}, map[*graph.Value]*graph.Value{}}
	ids := interner{} // shared by both graphs, so that equal contents have equal numbers
	numberings := []func(*graph.Graph, interner) map[*graph.Value]int{byComputation, byUse, byName}
	if resized {
		numberings = []func(*graph.Graph, interner) map[*graph.Value]int{byName, byComputation, byUse}
	}
	for _, number := range numberings {
		contentA, contentB := number(a, ids), number(b, ids)
		p.matchBy(a, b, func(v *graph.Value) string { return v.Name }, contentA, contentB)
		p.matchBy(a, b, func(*graph.Value) string { return "" }, contentA, contentB) // under any name
	}
	return p
}

// matchBy matches values of equal content and equal name, in order. nameKey returns the name that is compared. contentA
// and contentB map each value to the number that identifies its content.
func (p *pairing) matchBy(a, b *graph.Graph, nameKey func(*graph.Value) string,
	contentA, contentB map[*graph.Value]int) {
	type key struct {
		content int
		name    string
	}
	unmatched := map[key][]*graph.Value{}
	for _, v := range matchableValues(b) {
		if p.matchInFirst[v] == nil {
			k := key{contentB[v], nameKey(v)}
			unmatched[k] = append(unmatched[k], v)
		}
	}
	for _, v := range matchableValues(a) {
		k := key{contentA[v], nameKey(v)}
		if p.matchInSecond[v] != nil || len(unmatched[k]) == 0 {
			continue
		}
		match := unmatched[k][0]
		unmatched[k] = unmatched[k][1:]
		p.match(v, match)
	}
}

// match matches two values, and all results of their nodes.
func (p *pairing) match(v, match *graph.Value) {
	p.matchInSecond[v], p.matchInFirst[match] = match, v
	if v.Node == nil || match.Node == nil {
		return
	}
	for i := range min(len(v.Node.Out), len(match.Node.Out)) {
		p.matchInSecond[v.Node.Out[i]], p.matchInFirst[match.Node.Out[i]] = match.Node.Out[i], v.Node.Out[i]
	}
}

// matchableValues lists inputs, constants, and the first result of each node. The first result represents all results
// of the node.
func matchableValues(g *graph.Graph) []*graph.Value {
	list := slices.Concat(g.Inputs, g.Constants)
	for _, n := range g.Nodes {
		if len(n.Out) > 0 {
			list = append(list, n.Out[0])
		}
	}
	return list
}

// interner maps texts to numbers from 1.
type interner map[string]int

// id returns the number of a text. Equal texts have equal numbers.
func (ids interner) id(text string) int {
	if ids[text] == 0 {
		ids[text] = len(ids) + 1
	}
	return ids[text]
}

// byComputation numbers values by their computation: leaves by dtype and shape, results by op, attributes and operands.
func byComputation(g *graph.Graph, interned interner) map[*graph.Value]int {
	ids := map[*graph.Value]int{}
	for _, v := range slices.Concat(g.Inputs, g.Constants) {
		ids[v] = interned.id(leafText(v))
	}
	for _, n := range g.Nodes {
		var b strings.Builder
		b.WriteString(callText(n, func(v *graph.Value) string { return strconv.Itoa(ids[v]) }))
		for _, a := range n.In {
			switch a.Kind {
			case graph.TensorArg:
				fmt.Fprintf(&b, " %d", ids[a.Value])
			case graph.NumberArg:
				fmt.Fprintf(&b, " %v:%v", a.Number.DType(), a.Number)
			default:
				b.WriteString(" -")
			}
		}
		for i, v := range n.Out {
			ids[v] = interned.id("made " + b.String() + "#" + strconv.Itoa(i))
		}
	}
	return ids
}

// byUse numbers values by their uses: the ops that read them, the operand index, and the uses of the results.
func byUse(g *graph.Graph, interned interner) map[*graph.Value]int {
	readers := map[*graph.Value][]string{}
	for i, output := range g.Outputs {
		readers[output.Value] = append(readers[output.Value], fmt.Sprintf("output %d", i))
	}
	ids := map[*graph.Value]int{}
	uses := func(v *graph.Value) string {
		sorted.Strings(readers[v])
		return strings.Join(readers[v], ";")
	}
	for _, n := range slices.Backward(g.Nodes) {
		text := "used " + callText(n, func(*graph.Value) string { return "" })
		for _, v := range n.Out {
			text += " > " + strconv.Itoa(interned.id(uses(v)))
		}
		id := interned.id(text)
		for _, v := range n.Out {
			ids[v] = id
		}
		for i, a := range n.In {
			if a.Kind == graph.TensorArg {
				readers[a.Value] = append(readers[a.Value], fmt.Sprintf("%d at %d", id, i))
			}
		}
	}
	for _, v := range slices.Concat(g.Inputs, g.Constants) {
		ids[v] = interned.id("used " + leafText(v) + " > " + uses(v))
	}
	return ids
}

// byName numbers values by name and kind.
func byName(g *graph.Graph, interned interner) map[*graph.Value]int {
	ids := map[*graph.Value]int{}
	for _, v := range matchableValues(g) {
		ids[v] = interned.id("called " + v.Kind() + " " + v.Name)
	}
	return ids
}

// leafText describes an input or a constant without its name.
func leafText(v *graph.Value) string {
	return fmt.Sprintf("%s %v%s", v.Kind(), v.Meta.DType, tensor.ListString(v.Meta.Shape))
}

// callText describes the op and the attributes of a node. describeValue describes a value that an attribute is read
// from.
func callText(n *graph.Node, describeValue func(*graph.Value) string) string {
	var b strings.Builder
	b.WriteString(n.Op.Name)
	for name, attribute := range n.AttrsAsGiven() {
		switch attribute := attribute.(type) {
		case graph.ValueRef:
			fmt.Fprintf(&b, " %s=value %s", name, describeValue(attribute.Value))
		case *graph.Graph: // a body is identified by its name
			fmt.Fprintf(&b, " %s=graph %s", name, attribute.Name)
		default:
			if v := reflect.ValueOf(attribute); v.Kind() == reflect.Pointer && !v.IsNil() {
				attribute = v.Elem().Interface()
			}
			fmt.Fprintf(&b, " %s=%v", name, attribute)
		}
	}
	return b.String()
}

// shapes returns two maps, one for each graph: by name of a value, the shape of its match in the other graph.
func (p *pairing) shapes() (first, second map[string][]int) {
	first, second = map[string][]int{}, map[string][]int{}
	for v, match := range p.matchInSecond {
		first[v.Name], second[match.Name] = program.NotNil(match.Meta.Shape), program.NotNil(v.Meta.Shape)
	}
	return first, second
}
