// Command core is the idea of graphrun on one page, with Go's standard library alone: it reads a graph of pointwise ops
// and convolutions, infers the strides of every value as PyTorch does, inserts and elides copies, and runs the graph
// concurrently over coalesced loops.
//
//	go run ./examples/core examples/models/residual.json
//
// It reads from top to bottom: metas, the rule for strides, the graph, loops, the run, files. All values are float32.
package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand"
	"os"
	"path/filepath"
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
	g, err := load(os.Args[1], map[string]int{})
	if err == nil {
		err = g.propagate()
	}
	if err == nil {
		g.print()
		g.run()
		err = g.summarize()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "core:", err)
		os.Exit(1)
	}
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

// prefersChannelsLast reports whether PyTorch takes images for channels-last: see suggest_memory_format. In doubtful
// cases, such as one channel or images of one pixel, the strides decide.
func (m Meta) prefersChannelsLast() bool {
	if len(m.Shape) != 4 {
		return false
	}
	least := 0
	for _, dim := range []int{1, 3, 2, 0} {
		size, stride := m.Shape[dim], m.Strides[dim]
		if size == 0 || stride < least || dim == 0 && least == m.Strides[1] || stride == 0 && dim == 1 {
			return false
		}
		least = stride
		if size > 1 {
			least *= size
		}
	}
	return true
}

// ---- The rule: the strides of a pointwise result (TensorIteratorBase::build of PyTorch) ----

// broadcast returns the common shape of operands: sizes of 1 are repeated.
func broadcast(in []Meta) ([]int, error) {
	var shape []int
	for _, m := range in {
		for len(shape) < len(m.Shape) {
			shape = slices.Insert(shape, 0, 1)
		}
		for i := range m.Shape {
			have, size := &shape[len(shape)-1-i], m.Shape[len(m.Shape)-1-i]
			if *have == 1 {
				*have = size
			} else if size != 1 && size != *have {
				return nil, fmt.Errorf("sizes %d and %d do not match in dimension %d", *have, size, len(shape)-1-i)
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
			switch c := compare(order[before], order[at]); {
			case c > 0:
				order[before], order[at] = order[at], order[before]
				at = before
			case c < 0:
				before = 0 // ends the loop: earlier dimensions are faster still
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
	data    []float32
	isInput bool
}

// Node computes a value.
type Node struct {
	Name, Op string
	In       []*Value
	Out      *Value
	attrs    attrs
	note     string        // why a copy was inserted or elided
	done     chan struct{} // closed when Out has its data
}

// Graph is a DAG; each node comes behind the nodes whose results it reads.
type Graph struct {
	values  map[string]*Value
	order   []*Value // inputs and constants
	nodes   []*Node
	outputs []output
}

// formats are the layouts that a node or an output can ask for.
var formats = map[string]func(shape []int) Meta{"contiguous": rowMajor, "channels_last": channelsLast}

// functions are the pointwise ops.
var functions = map[string]func(x []float32) float32{
	"add": func(x []float32) float32 { return x[0] + x[1] }, "sub": func(x []float32) float32 { return x[0] - x[1] },
	"mul": func(x []float32) float32 { return x[0] * x[1] }, "relu": func(x []float32) float32 { return max(x[0], 0) },
	"neg": func(x []float32) float32 { return -x[0] }, "maximum": func(x []float32) float32 { return max(x[0], x[1]) },
	"where": func(x []float32) float32 {
		if x[0] != 0 {
			return x[1]
		}
		return x[2]
	},
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
			return fmt.Errorf("node %q (%s): %w", n.Name, n.Op, err)
		}
		n.Out.Meta = meta
		if n.Op == "contiguous" && n.In[0].has(meta) {
			n.note, n.Out.Meta = "elided: "+n.In[0].Name+" has the format", n.In[0].Meta
		}
	}
	for i, out := range g.outputs {
		v := g.values[out.Value]
		if format := formats[out.Format]; format != nil && !v.has(format(v.Shape)) {
			n := &Node{Name: out.Name, Op: "contiguous", In: []*Value{v}, Out: &Value{Name: out.Name, Meta: format(v.Shape)},
				note: "inserted: the output is to be " + out.Format, done: make(chan struct{})}
			g.nodes, g.outputs[i].Value, g.values[out.Name] = append(g.nodes, n), out.Name, n.Out
		}
	}
	return nil
}

// infer returns the meta of the node's result.
func (n *Node) infer(in []Meta) (Meta, error) {
	switch {
	case functions[n.Op] != nil:
		return pointwise(in)
	case n.Op == "contiguous" && formats[cmp.Or(n.attrs.Format, "contiguous")] != nil:
		return formats[cmp.Or(n.attrs.Format, "contiguous")](in[0].Shape), nil
	case n.Op != "conv2d":
		return Meta{}, errors.New("this page has no such op")
	case len(in) != 3 || len(in[0].Shape) != 4 || len(in[1].Shape) != 4 || in[0].Shape[1] != in[1].Shape[1]:
		return Meta{}, errors.New("want images, weights and biases of one group")
	}
	shape := []int{in[0].Shape[0], in[1].Shape[0], 0, 0}
	for k := range 2 {
		shape[2+k] = in[0].Shape[2+k] + 2*n.attrs.padding(k) - in[1].Shape[2+k] + 1
	}
	if in[0].prefersChannelsLast() || in[1].prefersChannelsLast() {
		return channelsLast(shape), nil
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
	producer := map[*Value]*Node{}
	for _, n := range g.nodes {
		producer[n.Out] = n
	}
	var all sync.WaitGroup
	for _, n := range g.nodes {
		all.Go(func() {
			for _, v := range n.In {
				if p := producer[v]; p != nil {
					<-p.done
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
	if n.Op == "contiguous" {
		f = func(x []float32) float32 { return x[0] }
	}
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
	inRanges(out.count(), func(from, to int) {
		l := loop{sizes: []int{out.Shape[3], out.Shape[2], out.Shape[1], out.Shape[0]}, strides: [][]int{{1, 0, 0, 0},
			{0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}} // the offsets are column, row, channel and image
		l.run(from, to, func(at []int) {
			sum := float64(bias.data[at[2]*bias.Strides[0]])
			for c := range w.Shape[1] {
				for i := range w.Shape[2] {
					for j := range w.Shape[3] {
						row, column := at[1]+i-n.attrs.padding(0), at[0]+j-n.attrs.padding(1)
						if row >= 0 && row < x.Shape[2] && column >= 0 && column < x.Shape[3] {
							sum += float64(x.data[at[3]*x.Strides[0]+c*x.Strides[1]+row*x.Strides[2]+column*x.Strides[3]]) *
								float64(w.data[at[2]*w.Strides[0]+c*w.Strides[1]+i*w.Strides[2]+j*w.Strides[3]])
						}
					}
				}
			}
			out.data[at[3]*out.Strides[0]+at[2]*out.Strides[1]+at[1]*out.Strides[2]+at[0]*out.Strides[3]] = float32(sum)
		})
	})
}

// print prints the plan.
func (g *Graph) print() {
	for _, v := range g.order {
		fmt.Printf("%-10s %-11s %v %v\n", v.Name, "", v.Shape, v.Strides)
	}
	for _, n := range g.nodes {
		text := n.note
		if functions[n.Op] != nil {
			text = fmt.Sprintf("loop %v", loopOf(n.Out.Meta, n.In).sizes)
		}
		fmt.Printf("%-10s %-11s %v %v  %s\n", n.Out.Name, n.Op, n.Out.Shape, n.Out.Strides, text)
	}
}

// summarize prints the outputs.
func (g *Graph) summarize() error {
	for _, out := range g.outputs {
		least, most, sum := math.Inf(1), math.Inf(-1), 0.0
		v := g.values[out.Value]
		if v.data == nil {
			return fmt.Errorf("output %q has no data", out.Name)
		}
		for _, x := range v.data {
			least, most, sum = min(least, float64(x)), max(most, float64(x)), sum+float64(x)
		}
		fmt.Printf("%s: min %.6g, max %.6g, mean %.6g\n", out.Name, least, most, sum/float64(len(v.data)))
	}
	return nil
}

// ---- Files: the part of graphrun's graph format that this page needs ----

type attrs struct {
	Padding []int  `json:"padding"`
	Format  string `json:"memory_format"`
}

func (a attrs) padding(k int) int {
	if len(a.Padding) == 0 {
		return 0
	}
	return a.Padding[min(k, len(a.Padding)-1)]
}

type output struct {
	Value  string `json:"value"`
	Name   string `json:"name"`
	Format string `json:"memory_format"`
}

type declaration struct {
	Name    string    `json:"name"`
	Shape   []any     `json:"shape"`
	Strides []int     `json:"strides"`
	Format  string    `json:"memory_format"`
	File    string    `json:"file"`
	Key     string    `json:"key"`
	Data    []float32 `json:"data"`
}

// load reads a graph. Inputs get random values; symbols have the given sizes, or 2.
func load(path string, sizes map[string]int) (*Graph, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Inputs, Constants []declaration
		Nodes             []struct {
			Name   string
			Op     string
			Inputs []string
			Attrs  attrs
		}
		Outputs []json.RawMessage
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	g := &Graph{values: map[string]*Value{}}
	for i, d := range slices.Concat(file.Inputs, file.Constants) {
		v, err := d.value(filepath.Dir(path), sizes, i < len(file.Inputs))
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, d.Name, err)
		}
		g.values[d.Name], g.order = v, append(g.order, v)
	}
	for _, f := range file.Nodes {
		n := &Node{Name: f.Name, Op: f.Op, Out: &Value{Name: f.Name}, attrs: f.Attrs, done: make(chan struct{})}
		for _, name := range f.Inputs {
			if g.values[name] == nil {
				return nil, fmt.Errorf("%s: node %q: there is no value %q before it", path, f.Name, name)
			}
			n.In = append(n.In, g.values[name])
		}
		g.nodes, g.values[f.Name] = append(g.nodes, n), n.Out
	}
	for _, raw := range file.Outputs {
		var out output
		if json.Unmarshal(raw, &out.Value) != nil {
			if err := json.Unmarshal(raw, &out); err != nil {
				return nil, fmt.Errorf("%s: outputs: %w", path, err)
			}
		}
		if out.Name = cmp.Or(out.Name, out.Value); g.values[out.Value] == nil {
			return nil, fmt.Errorf("%s: output %q: there is no value %q", path, out.Name, out.Value)
		}
		g.outputs = append(g.outputs, out)
	}
	return g, nil
}

// value makes the declared value: its meta, and its data in this layout.
func (d declaration) value(folder string, sizes map[string]int, isInput bool) (*Value, error) {
	shape := make([]int, len(d.Shape))
	for i, size := range d.Shape {
		switch size := size.(type) {
		case float64:
			shape[i] = int(size)
		case string:
			shape[i] = cmp.Or(sizes[size], 2)
		}
	}
	v, packed := &Value{Name: d.Name, Meta: rowMajor(shape), isInput: isInput}, rowMajor(shape)
	if format := formats[d.Format]; format != nil {
		v.Meta = format(shape)
	}
	extent := v.count()
	if d.Strides != nil {
		v.Strides, extent = d.Strides, 1
		for dim, size := range shape {
			extent += (size - 1) * d.Strides[dim]
		}
	}
	data := d.Data
	var err error
	switch {
	case isInput:
		data = make([]float32, v.count())
		for i := range data {
			data[i] = 2*rand.Float32() - 1
		}
	case d.File != "":
		data, err = readNPZ(filepath.Join(folder, d.File), d.Key)
	}
	if err == nil && len(data) != v.count() {
		err = fmt.Errorf("it has %d elements, want %d", len(data), v.count())
	}
	v.data = make([]float32, max(extent, 0))
	if err == nil {
		l := loopOf(packed, []*Value{v})
		l.run(0, v.count(), func(offsets []int) { v.data[offsets[1]] = data[offsets[0]] })
	}
	return v, err
}

// readNPZ reads an array of float32 in row-major order from an archive of numpy.
func readNPZ(path, key string) ([]float32, error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	file, err := archive.Open(key + ".npy")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	if err != nil || len(b) < 10 || len(b) < 10+int(binary.LittleEndian.Uint16(b[8:])) {
		return nil, errors.Join(err, errors.New("not an array of numpy"))
	}
	header := b[10 : 10+binary.LittleEndian.Uint16(b[8:])]
	if !bytes.Contains(header, []byte("'<f4'")) || bytes.Contains(header, []byte("True")) {
		return nil, errors.New("want row-major float32")
	}
	data := make([]float32, (len(b)-10-len(header))/4)
	return data, binary.Read(bytes.NewReader(b[10+len(header):]), binary.LittleEndian, data)
}
