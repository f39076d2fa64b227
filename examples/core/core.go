// Command core is the idea of graphrun on one page, with Go's standard library alone: it reads a graph of pointwise ops
// and convolutions, infers the strides of every value as PyTorch does, inserts and elides copies, and runs the graph
// concurrently over coalesced loops.
//
//	go run ./examples/core examples/models/residual.json
//
// It reads from top to bottom: metas, the rule for strides, the graph, loops, the run. load.go reads files. All values
// are float32.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: core GRAPH.json")
		os.Exit(2)
	}
	g, err := load(os.Args[1])
	if err == nil {
		err = g.propagate()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "core:", err)
		os.Exit(1)
	}
	g.print()
	g.run()
	g.summarize()
}

// ---- Metas: shapes and strides without data ----

// Meta is the shape of a tensor and its strides: the distances, in elements, between neighbours in each dimension.
type Meta struct{ Shape, Strides []int }

// rowMajor returns a meta whose last dimension is the fastest.
func rowMajor(shape []int) Meta { return inOrder(shape, upTo(len(shape))) }

// channelsLast returns a meta of images [N, C, H, W] that are stored as [N, H, W, C].
func channelsLast(shape []int) Meta { return inOrder(shape, []int{0, 2, 3, 1}) }

// inOrder returns a meta without gaps whose dimensions are ordered from the slowest to the fastest.
func inOrder(shape, order []int) Meta {
	m, next := Meta{shape, make([]int, len(shape))}, 1
	for _, dim := range slices.Backward(order) {
		m.Strides[dim] = next
		next *= max(1, shape[dim])
	}
	return m
}

// upTo returns 0, 1, ..., n-1.
func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// count returns the number of elements.
func (m Meta) count() int {
	n := 1
	for _, size := range m.Shape {
		n *= size
	}
	return n
}

// has reports whether the strides are those of the format. Strides of dimensions of size 1 do not matter: a tensor of
// shape [2, 1, 3, 3] can be both row-major and channels-last.
func (m Meta) has(format Meta) bool {
	for dim, size := range m.Shape {
		if size != 1 && m.Strides[dim] != format.Strides[dim] {
			return false
		}
	}
	return true
}

func (m Meta) isRowMajor() bool     { return m.count() == 0 || m.has(rowMajor(m.Shape)) }
func (m Meta) isChannelsLast() bool { return len(m.Shape) == 4 && m.has(channelsLast(m.Shape)) }

// isDense reports whether the elements fill a block of memory, in any order of the dimensions.
func (m Meta) isDense() bool {
	order := upTo(len(m.Shape))
	slices.SortStableFunc(order, func(a, b int) int { // the fastest first, dimensions of size 0 or 1 last
		return cmp.Or(cmp.Compare(min(m.Shape[b], 2), min(m.Shape[a], 2)), cmp.Compare(m.Strides[a], m.Strides[b]))
	})
	next := 1
	for _, dim := range order {
		if m.Shape[dim] < 2 {
			break
		}
		if m.Strides[dim] != next {
			return false
		}
		next *= m.Shape[dim]
	}
	return true
}

// ---- The rule: the strides of a pointwise result (TensorIteratorBase::build of PyTorch) ----

// broadcast returns the common shape of operands: sizes of 1 are repeated, and shapes are aligned at their ends.
func broadcast(in []Meta) ([]int, error) {
	var shape []int
	for _, m := range in {
		shape = append(slices.Repeat([]int{1}, max(0, len(m.Shape)-len(shape))), shape...)
		for i, size := range m.Shape {
			switch have := &shape[len(shape)-len(m.Shape)+i]; {
			case *have == 1:
				*have = size
			case size != 1 && size != *have:
				return nil, fmt.Errorf("sizes %d and %d do not match", *have, size)
			}
		}
	}
	return shape, nil
}

// effective returns the strides at which an operand is read for the common shape: 0 where it is repeated.
func effective(m Meta, shape []int) []int {
	strides, added := make([]int, len(shape)), len(shape)-len(m.Shape)
	for dim, size := range m.Shape {
		if size != 1 || shape[added+dim] == 1 {
			strides[added+dim] = m.Strides[dim]
		}
	}
	return strides
}

// perm returns the dimensions from the fastest to the slowest, as the operands order them: the first operand that can
// tell decides each pair. It is an insertion sort because the comparison is ambiguous and not transitive: an operand
// that is repeated in a dimension has no opinion about it.
func perm(shape []int, operands [][]int) []int {
	compare := func(a, b int) int { // > 0: a is slower than b
		for _, strides := range operands {
			switch {
			case strides[a] == 0 || strides[b] == 0: // repeated: the next operand decides
			case strides[a] != strides[b]:
				return strides[a] - strides[b]
			case shape[a] > shape[b]: // equal strides: the smaller size is the faster one
				return 1
			}
		}
		return 0 // nobody can tell: the order stays
	}
	order := upTo(len(shape))
	slices.Reverse(order)
	for i := 1; i < len(order); i++ {
		at := i
		for before := i - 1; before >= 0; before-- {
			c := compare(order[before], order[at])
			if c < 0 {
				break
			}
			if c > 0 {
				order[before], order[at] = order[at], order[before]
				at = before
			}
		}
	}
	return order
}

// pointwise returns the meta of the result of a pointwise op.
func pointwise(in []Meta) (Meta, error) {
	shape, err := broadcast(in)
	if err != nil {
		return Meta{}, err
	}
	all := func(test func(Meta) bool) bool {
		return !slices.ContainsFunc(in, func(m Meta) bool { return !test(m) })
	}
	if all(func(m Meta) bool { return slices.Equal(m.Shape, shape) }) { // fast set-up, without a permutation
		switch {
		case all(Meta.isRowMajor):
			return rowMajor(shape), nil
		case all(Meta.isChannelsLast):
			return channelsLast(shape), nil
		case all(func(m Meta) bool { return m.isDense() && slices.Equal(m.Strides, in[0].Strides) }):
			return Meta{shape, in[0].Strides}, nil
		}
	}
	var operands [][]int
	for _, m := range in {
		operands = append(operands, effective(m, shape))
	}
	order := perm(shape, operands)
	slices.Reverse(order)
	return inOrder(shape, order), nil
}

// ---- The graph: values, nodes, propagation ----

// Value is an input, a constant or a result.
type Value struct {
	Name string
	Meta
	from *Node // nil for inputs and constants
	data []float32
}

// Node computes a value.
type Node struct {
	Op    string
	In    []*Value
	Out   *Value
	attrs attrs
	note  string        // why a copy was inserted or elided
	done  chan struct{} // closed when Out has its data
}

// Graph is a DAG; each node comes behind the nodes whose results it reads.
type Graph struct {
	values  map[string]*Value
	given   []*Value // inputs and constants
	nodes   []*Node
	outputs []output
}

// add adds a node.
func (g *Graph) add(op, name string, in []*Value, attrs attrs) *Node {
	n := &Node{Op: op, In: in, attrs: attrs, done: make(chan struct{})}
	n.Out = &Value{Name: name, from: n}
	g.nodes, g.values[name] = append(g.nodes, n), n.Out
	return n
}

// formats are the layouts that a node or an output can ask for.
var formats = map[string]func(shape []int) Meta{"contiguous": rowMajor, "channels_last": channelsLast}

// functions compute an element.
var functions = map[string]func(x []float32) float32{
	"add": func(x []float32) float32 { return x[0] + x[1] }, "sub": func(x []float32) float32 { return x[0] - x[1] },
	"mul":     func(x []float32) float32 { return x[0] * x[1] },
	"maximum": func(x []float32) float32 { return max(x[0], x[1]) },
	"relu":    func(x []float32) float32 { return max(x[0], 0) }, "contiguous": func(x []float32) float32 { return x[0] },
}

// propagate infers all metas in order. It elides a `contiguous` whose operand has the format, and inserts one before an
// output that asks for another format.
func (g *Graph) propagate() error {
	for _, n := range g.nodes {
		var metas []Meta
		for _, v := range n.In {
			metas = append(metas, v.Meta)
		}
		meta, err := n.infer(metas)
		if err != nil {
			return fmt.Errorf("node %q (%s): %w", n.Out.Name, n.Op, err)
		}
		n.Out.Meta = meta
		if n.Op == "contiguous" && n.In[0].has(meta) {
			n.note, n.Out.Meta = "elided: "+n.In[0].Name+" has the format", n.In[0].Meta
		}
	}
	for i, out := range g.outputs {
		v := g.values[out.Value]
		if format := formats[out.Format]; format != nil && !v.has(format(v.Shape)) {
			n := g.add("contiguous", out.Name, []*Value{v}, attrs{})
			n.note, n.Out.Meta, g.outputs[i].Value = "inserted: the output is to be "+out.Format, format(v.Shape), out.Name
		}
	}
	return nil
}

// infer returns the meta of the node's result.
func (n *Node) infer(in []Meta) (Meta, error) {
	switch {
	case n.Op == "contiguous":
		return formats[cmp.Or(n.attrs.Format, "contiguous")](in[0].Shape), nil
	case functions[n.Op] != nil:
		return pointwise(in)
	case n.Op != "conv2d" || len(in) != 3 || len(in[0].Shape) != 4 || len(in[1].Shape) != 4:
		return Meta{}, errors.New("this page has only pointwise ops and convolutions of images with a bias")
	}
	shape := []int{in[0].Shape[0], in[1].Shape[0], 0, 0}
	for k := range 2 {
		shape[2+k] = in[0].Shape[2+k] + 2*n.attrs.padding(k) - in[1].Shape[2+k] + 1
	}
	if slices.ContainsFunc(in[:2], func(m Meta) bool { return m.isChannelsLast() && !m.isRowMajor() }) {
		return channelsLast(shape), nil // if m has both formats, PyTorch looks at the strides; this page does not
	}
	return rowMajor(shape), nil
}

// ---- Loops: coalesced, and divided among goroutines ----

// loop iterates over the elements of its operands; operand 0 is the result. sizes[0] is the fastest dimension.
type loop struct {
	sizes   []int
	strides [][]int // by operand
}

// loopOf returns the loop over the elements of out, and of the operands in, that are broadcast to its shape.
func loopOf(out Meta, in []*Value) loop {
	operands := [][]int{effective(out, out.Shape)}
	for _, v := range in {
		operands = append(operands, effective(v.Meta, out.Shape))
	}
	l := loop{strides: make([][]int, len(operands))}
	for _, dim := range perm(out.Shape, operands) {
		if size := out.Shape[dim]; size != 1 {
			l.sizes = append(l.sizes, size)
			for i, strides := range operands {
				l.strides[i] = append(l.strides[i], strides[dim])
			}
		}
	}
	return l.coalesced()
}

// coalesced merges dimensions that all operands step through as through one: [4, 8] with strides (1, 4) is [32].
func (l loop) coalesced() loop {
	for dim := 0; dim+1 < len(l.sizes); {
		if slices.ContainsFunc(l.strides, func(s []int) bool { return s[dim+1] != s[dim]*l.sizes[dim] }) {
			dim++
			continue
		}
		l.sizes[dim] *= l.sizes[dim+1]
		l.sizes = slices.Delete(l.sizes, dim+1, dim+2)
		for i := range l.strides {
			l.strides[i] = slices.Delete(l.strides[i], dim+1, dim+2)
		}
	}
	return l
}

// run calls f for the offsets of the operands in iterations from to to.
func (l loop) run(from, to int, f func(offsets []int)) {
	offsets := make([]int, len(l.strides))
	for at := from; at < to; at++ {
		clear(offsets)
		rest := at
		for dim, size := range l.sizes {
			for i := range offsets {
				offsets[i] += rest % size * l.strides[i][dim]
			}
			rest /= size
		}
		f(offsets)
	}
}

// inRanges calls f for ranges of 0 to n, in parallel. The ranges do not affect results.
func inRanges(n int, f func(from, to int)) {
	const least = 1 << 12
	var tasks sync.WaitGroup
	step := max(least, (n+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	for from := 0; from < n; from += step {
		tasks.Go(func() { f(from, min(n, from+step)) })
	}
	tasks.Wait()
}

// ---- The run: each node starts when its operands are ready ----

func (g *Graph) run() {
	var all sync.WaitGroup
	for _, n := range g.nodes {
		all.Go(func() {
			for _, v := range n.In {
				if v.from != nil {
					<-v.from.done
				}
			}
			n.compute()
			close(n.done)
		})
	}
	all.Wait()
}

// compute computes the result of a node.
func (n *Node) compute() {
	out := n.Out
	if strings.HasPrefix(n.note, "elided") {
		out.data = n.In[0].data
		return
	}
	out.data = make([]float32, out.count())
	if n.Op == "conv2d" {
		n.convolve()
		return
	}
	f, l := functions[n.Op], loopOf(out.Meta, n.In)
	inRanges(out.count(), func(from, to int) {
		operands := make([]float32, len(n.In))
		l.run(from, to, func(offsets []int) {
			for i, v := range n.In {
				operands[i] = v.data[offsets[1+i]]
			}
			out.data[offsets[0]] = f(operands)
		})
	})
}

// convolve computes each element of a convolution by its definition.
func (n *Node) convolve() {
	x, w, bias, out := n.In[0], n.In[1], n.In[2], n.Out
	at := func(v *Value, index ...int) int { // the place of an element
		place := 0
		for dim, i := range index {
			place += i * v.Strides[dim]
		}
		return place
	}
	inRanges(out.count(), func(from, to int) {
		for i := from; i < to; i++ {
			column, row, channel, image := i%out.Shape[3], i/out.Shape[3]%out.Shape[2], i/out.Shape[3]/out.Shape[2]%out.Shape[1],
				i/out.Shape[3]/out.Shape[2]/out.Shape[1]
			sum := float64(bias.data[at(bias, channel)])
			for k := range w.Shape[1] * w.Shape[2] * w.Shape[3] {
				c, dy, dx := k/w.Shape[3]/w.Shape[2], k/w.Shape[3]%w.Shape[2], k%w.Shape[3]
				if y, x0 := row+dy-n.attrs.padding(0), column+dx-n.attrs.padding(1); y >= 0 && y < x.Shape[2] && x0 >= 0 &&
					x0 < x.Shape[3] {
					sum += float64(x.data[at(x, image, c, y, x0)]) * float64(w.data[at(w, channel, c, dy, dx)])
				}
			}
			out.data[at(out, image, channel, row, column)] = float32(sum)
		}
	})
}

// print prints the plan.
func (g *Graph) print() {
	for _, v := range g.given {
		fmt.Printf("%-22s %v %v\n", v.Name, v.Shape, v.Strides)
	}
	for _, n := range g.nodes {
		if functions[n.Op] != nil && !strings.HasPrefix(n.note, "elided") {
			n.note += fmt.Sprintf(" loop %v", loopOf(n.Out.Meta, n.In).sizes)
		}
		fmt.Printf("%-10s %-11s %v %v %s\n", n.Out.Name, n.Op, n.Out.Shape, n.Out.Strides, n.note)
	}
}

// summarize prints the outputs.
func (g *Graph) summarize() {
	for _, out := range g.outputs {
		data, sum := g.values[out.Value].data, 0.0
		for _, x := range data {
			sum += float64(x)
		}
		fmt.Printf("%s: min %.6g, max %.6g, mean %.6g\n", out.Name, slices.Min(data), slices.Max(data),
			sum/float64(len(data)))
	}
}
