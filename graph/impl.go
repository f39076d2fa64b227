package graph

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// ErrNoImpl says that an op has no implementation for the layouts of a call.
var ErrNoImpl = errors.New("no implementation supports these layouts")

// Impl is one way to compute an op: an algorithm that can be listed, priced and forced. [Define]
// fills in what is nil, and makes one Impl of Compile for an op that lists none.
type Impl struct {
	Name string // unique within the op: "nhwc"
	Doc  string // how it computes, in one sentence

	// Inexact says that it computes by another formula than the op's definition: equal to that for real numbers, and
	// rounded otherwise, by more than another order of additions would. Who asks for exact plans gets none such.
	Inexact bool

	// Walks returns the ways through the call that the implementation has, the one that it would
	// rather take first; none where it does not support the call. It is asked with the results as
	// inference gives them in c.Out. candidates are orders that somebody may want of the first
	// result. Nil: as inference gives it, and any candidate for an op that writes any order.
	Walks func(c *Call, candidates []tensor.Order) []Walk
	// Read tells what it takes more that operand i has layout m, beside an operand as the walk would have it;
	// false: it cannot be read so and must be copied. It is asked for the layout rather than an order because
	// operands need not be dense: slices and broadcasts are read as they are. Nil: it is read in any layout.
	//
	// The price of a node is that of its Work and of a Read for each operand, added up. So neither, nor Walks, may
	// depend on how the operands of the call lie: on their shapes, dtypes and whether they are constant alone, and
	// on their own arguments.
	Read func(c *Call, w Walk, i int, m tensor.Meta) (Work, bool)
	// Writes tells whether the kernel of Lower writes result i as m, in which elements lie further apart than in a dense
	// value: as a slice of a larger value has them, whose order is that of the walk. Nil: it writes dense values only.
	Writes func(c *Call, w Walk, i int, m tensor.Meta) bool
	// Work is what it takes to compute the results, to store them and to read every operand once as the walk would
	// have it. Nil: as the op's Each and Flops say, and every byte once.
	Work func(c *Call, w Walk) Work
	// Pack tells in which form the implementation wants operand i, a constant, for the call with its
	// walk and its results as they will be laid out; false: it reads the operand as it is. It must not read the
	// data of the operand, and gives the same for one that is packed so already. Nil: no operand is packed.
	Pack func(c *Call, i int) (Packing, bool)
	// Lower prepares the kernel; c.Out holds the results as they will be laid out. Operands for which Pack has
	// a form come in it, or, where memory is short, as they are: see [Call.Packed].
	Lower func(c *Call) (*Kernel, error)
	// Tails says that Lower takes calls with a [Call.Tail] where the result is of float32, float64 or int32: the kernel
	// has every element of its one result gone on with, once, when it is final. Passes then make one step of a node and
	// the pointwise ones behind it.
	Tails bool

	selective bool // Read was given: not every layout will do

	// read is Read as it was given, which may leave the footprint out; nil before the op is defined.
	read func(c *Call, w Walk, i int, m tensor.Meta) (Work, bool)
}

// Walk is a way through a call: the order that the loops follow, and how the results are laid out. The zero
// Walk follows and gives what inference does.
type Walk struct {
	// Order is that of the dimensions of the first result, as the loops go through them; empty: by
	// the layouts of the operands.
	Order tensor.Order
	// Out holds the order of each result; an empty one, or a list too short, stands for the layout
	// that inference gives.
	Out []tensor.Order
}

// InOrder returns the walk in an order that gives it to all results of the same rank.
func (c *Call) InOrder(o tensor.Order) Walk {
	w := Walk{Order: o, Out: make([]tensor.Order, len(c.Out))}
	for i, m := range c.Out {
		if m.Rank() == o.Rank() {
			w.Out[i] = o
		}
	}
	return w
}

// Inferred reports whether all results are laid out as inference gives them.
func (w Walk) Inferred() bool {
	return !slices.ContainsFunc(w.Out, func(o tensor.Order) bool { return o != "" })
}

// Lay returns how result i is laid out, which inference gives as m. Where m is dense in the walk's order
// already it stays: dimensions of size 1 keep their strides.
func (w Walk) Lay(i int, m tensor.Meta) tensor.Meta {
	if i < 0 || i >= len(w.Out) || w.Out[i] == "" || w.Out[i].Rank() != m.Rank() || w.Out[i].Holds(m) {
		return m
	}
	return m.WithStrides(w.Out[i].Strides(m.Shape))
}

// Work is what there is to do, in terms that a profile of a machine prices: bytes by access, what inner kernels do,
// and steps that have to be begun.
type (
	Work   = machine.Work
	Access = machine.Access
	Part   = machine.Part
)

// The ways to touch bytes of memory. Dense: one after another, read or written while something is done to them.
// Kept: one after another, of constants. Panels: constants, by products in
// register tiles. Copied: one after another, by what only copies. Tiled: turned, tile by
// tile. Strided: with steps, a part of every line of the cache. Gathered: anywhere.
const (
	Dense    = machine.Dense
	Kept     = machine.Kept
	Panels   = machine.Panels
	Copied   = machine.Copied
	Tiled    = machine.Tiled
	Strided  = machine.Strided
	Gathered = machine.Gathered
)

// Work is what there is to do for a node as it stands: what its implementation, or the first one where none is
// chosen, computes, stores and reads, each operand once. It is zero for a view, for what has no implementation or
// no shape yet, and where the op fails to tell. Its price is that of [Node.Works], less what overlaps.
func (n *Node) Work() (w Work) {
	for _, v := range n.Works() {
		w = w.Plus(v)
	}
	return w
}

// Works is what there is to do for a node in the parts that are priced one by one: first what its implementation,
// or the first one where none is chosen, does however operands lie, then what more it takes that each lies as it
// does. It is nil for a view, for what has no implementation or no shape yet, and where the op fails to tell.
func (n *Node) Works() (list []Work) {
	if n == nil {
		return nil
	}
	list = make([]Work, 0, 1+len(n.In))
	all := n.EachWork(nil, func(i int, w Work) {
		if i < 0 || w != (Work{}) {
			list = append(list, w)
		}
	})
	if !all {
		return nil
	}
	return list
}

// EachWork hands the parts of [Node.Works] to take, with the operand that each is for, -1 for what does not depend on
// how operands lie; of operands only those that asked says true for, where it is not nil. It reports whether the op
// told; false, too, where Works gives nil.
func (n *Node) EachWork(asked func(i int) bool, take func(i int, w Work)) (told bool) {
	if n == nil || take == nil || n.Op == nil || len(n.Op.Impls) == 0 || len(n.Out) == 0 {
		return false
	}
	defer func() {
		if recover() != nil {
			told = false
		}
	}()
	if n.IsView() || n.Out[0].Dynamic {
		return false
	}
	impl := n.Impl
	if impl == nil {
		impl = &n.Op.Impls[0]
	}
	c := n.Call()
	if asked == nil || asked(-1) {
		take(-1, impl.Work(c, n.Walk))
	}
	read := impl.Reader(c, n.Walk)
	for i, a := range n.In {
		if a.Kind == TensorArg && (asked == nil || asked(i)) {
			w, _ := read(i, a.Meta())
			take(i, w)
		}
	}
	return true
}

// Reader is [Impl.Read] for many operands and layouts of a call, and a walk: what the step touches is added up once.
// The function is for one goroutine.
func (m *Impl) Reader(c *Call, w Walk) func(i int, meta tensor.Meta) (Work, bool) {
	read, touched := m.read, 0.0
	if read == nil {
		read = m.Read
	}
	return func(i int, meta tensor.Meta) (Work, bool) {
		r, ok := read(c, w, i, meta)
		if r.Footprint == 0 && r != (Work{}) {
			if touched == 0 { // once for all operands, which may be many
				touched = c.Footprint()
			}
			r.Footprint = touched
		}
		return r, ok
	}
}

// Footprint is the bytes of all operands and results of a call: what its step touches.
func (c *Call) Footprint() (bytes float64) {
	if c == nil {
		return 0
	}
	for i := range c.In {
		if a := &c.In[i]; a.Kind == TensorArg && a.Value != nil {
			m := &a.Value.Meta
			if p := a.Value.Packed; p != nil {
				m = &p.Meta
			}
			bytes += float64(tensor.Numel(m.Shape)) * float64(m.DType.Size())
		}
	}
	for i := range c.Out {
		bytes += float64(c.Out[i].Bytes())
	}
	return bytes
}

// ReadWork is what reading an operand that has layout m takes more, in loops that write a result of layout to, than
// reading each byte once in the order of the loops: it is turned where the two disagree about the fastest dimension,
// which is to write it, too, into blocks that are near when they are read again, and read with steps where its
// elements do not lie side by side; where those that do are fewer than in the result, as in a slice of each row,
// there are as many runs more, each of which begins where nothing was asked for ahead. A loop over no elements reads
// nothing.
func ReadWork(m, to tensor.Meta) (w Work) {
	extent := m.Extent()
	if to.Extent() == 0 { // panics where strides are missing
		return w
	}
	bytes, d := float64(min(m.Bytes(), extent*m.DType.Size())), fastest(m)
	switch {
	case m.Rank() == to.Rank() && d != fastest(to):
		w.Bytes[Tiled], w.Bytes[Dense] = 2*bytes, -bytes
		w.Do(Turned, float64(m.Numel()))
	case d >= 0 && m.Strides[d] > 1:
		w.Bytes[Strided], w.Bytes[Dense] = bytes, -bytes
	case m.Rank() == to.Rank():
		if runs := runsOf(m, to); runs > 1 {
			waitRuns(&w, runs, bytes/runs)
			w.Bytes[Copied] = apartBytes * min(float64(extent*m.DType.Size()), runs*pageBytes)
		}
	}
	return w
}

const (
	// apartBytes is how many copied bytes one takes that runs apart from one another span: what asks for lines ahead
	// stops where a run ends and at the end of a page.
	apartBytes = .75
	pageBytes  = 4096
)

// runsOf is the number of runs of an operand in which its elements lie as those of a result do, if the operand has as
// many and repeats none; else 0.
func runsOf(m, to tensor.Meta) float64 {
	length, all := 1, m.Numel()
	if all != to.Numel() {
		return 0
	}
	for length < all {
		next := -1
		for d, n := range m.Shape {
			if n > 1 && m.Strides[d] == 0 {
				return 0
			}
			if n > 1 && m.Strides[d] == length && to.Strides[d] == length {
				next = d
			}
		}
		if next < 0 {
			return float64(all) / float64(length)
		}
		length *= m.Shape[next]
	}
	return 1
}

// fastest returns the dimension over 1 with the least stride other than 0; -1 if none.
func fastest(m tensor.Meta) int {
	best := -1
	for d, s := range m.Shape {
		if s > 1 && m.Strides[d] > 0 && (best < 0 || m.Strides[d] < m.Strides[best]) {
			best = d
		}
	}
	return best
}

// Impl returns an implementation by name. The error lists those that there are.
func (o *Op) Impl(name string) (*Impl, error) {
	for i := range o.Impls {
		if o.Impls[i].Name == name {
			return &o.Impls[i], nil
		}
	}
	names := o.implNames()
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no implementations to choose from", o.Name)
	}
	hint := ""
	if near := suggest.Nearest(name, slices.Values(names)); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return nil, fmt.Errorf("%s has no implementation %q: want one of %s%s", o.Name, name, strings.Join(names, ", "), hint)
}

func (o *Op) implNames() []string {
	names := make([]string, len(o.Impls))
	for i := range o.Impls {
		names[i] = o.Impls[i].Name
	}
	return names
}

// copyNames are the names by which a catalogue is asked for the op that copies values.
var copyNames = []string{"clone", "contiguous"}

// CopyOp returns the op that passes copy values with, the one that [Op.Copies] marks.
func (g *Graph) CopyOp() (*Op, error) {
	for _, name := range copyNames {
		if o := g.Op(name); o != nil && o.Copies {
			return o, nil
		}
	}
	return nil, errors.New("the catalogue has no op that copies values")
}

// Selective reports whether the implementation refuses operands of some layouts.
func (m *Impl) Selective() bool { return m.selective }

// fits reports whether the implementation supports the call in its layouts: some walk of it gives the
// results in c.Out and reads all operands.
func (m *Impl) fits(c *Call) bool {
	var orders []tensor.Order
	for _, out := range c.Out {
		if o, dense := tensor.OrderOf(out); dense && !slices.Contains(orders, o) {
			orders = append(orders, o)
		}
	}
	for _, w := range m.Walks(c, orders) {
		if w.gives(c) && m.Reads(c, w) {
			return true
		}
	}
	return false
}

// gives reports whether the results in c.Out are laid out as the walk has them.
func (w Walk) gives(c *Call) bool {
	for i, o := range w.Out {
		if i < len(c.Out) && o != "" && !o.Holds(c.Out[i]) {
			return false
		}
	}
	return true
}

// Reads reports whether the implementation reads all operands in their own layouts. What has no elements lies in any.
func (m *Impl) Reads(c *Call, w Walk) bool {
	if c == nil || m.Read == nil || !m.selective {
		return c != nil
	}
	for i, a := range c.In {
		if a.Kind == TensorArg && a.Meta().Numel() > 0 {
			if _, ok := m.Read(c, w, i, a.Meta()); !ok {
				return false
			}
		}
	}
	return true
}

// completeImpls fills the implementations in, and Compile where they are what computes.
func (o *Op) completeImpls() {
	if len(o.Impls) == 0 {
		if o.Compile == nil {
			return
		}
		one := Impl{Name: "plain", Doc: "The only one.", Lower: o.Compile}
		if o.Pointwise != nil {
			one = Impl{Name: "loop", Doc: "One loop over the elements, in the order that the iterator gives.", Lower: o.Compile,
				Writes: func(*Call, Walk, int, tensor.Meta) bool { return true }}
		}
		o.Impls = []Impl{one}
	} else {
		o.Impls = slices.Clone(o.Impls)
		o.Compile = o.compile
	}
	for i := range o.Impls {
		m := &o.Impls[i]
		m.selective = m.Read != nil
		if m.Walks == nil {
			m.Walks = o.walks
		}
		if m.Read == nil {
			m.Read = o.read
		}
		if m.Work == nil {
			m.Work = o.work
		}
		m.read = m.Read
		m.Work, m.Read = placedWork(m.Work), placedRead(m.Read)
	}
}

// placedWork tells with the work what the step touches, where it does not tell itself.
func placedWork(work func(*Call, Walk) Work) func(*Call, Walk) Work {
	return func(c *Call, w Walk) Work {
		r := work(c, w)
		if r.Footprint == 0 {
			r.Footprint = c.Footprint()
		}
		return r
	}
}

// placedRead is [placedWork] for reading an operand.
func placedRead(read func(*Call, Walk, int, tensor.Meta) (Work, bool)) func(*Call, Walk, int,
	tensor.Meta) (Work, bool) {
	return func(c *Call, w Walk, i int, m tensor.Meta) (Work, bool) {
		r, ok := read(c, w, i, m)
		if r.Footprint == 0 && r != (Work{}) {
			r.Footprint = c.Footprint()
		}
		return r, ok
	}
}

// compile is Compile of an op that lists implementations: the one chosen, else the first that
// supports the call in its layouts.
func (o *Op) compile(c *Call) (*Kernel, error) {
	m := o.Fitting(c)
	if m == nil {
		return nil, ErrNoImpl
	}
	return m.Lower(c)
}

// Fitting returns the implementation that was chosen for a call, else the first that supports it in its
// layouts; nil if none does, or if the call was not inferred for this op.
func (o *Op) Fitting(c *Call) *Impl {
	if c == nil || len(c.Out) == 0 || !o.owns(c.Attrs) {
		return nil
	}
	if c.Impl != nil {
		return c.Impl
	}
	for i := range o.Impls {
		if o.Impls[i].fits(c) {
			return &o.Impls[i]
		}
	}
	return nil
}

// owns reports whether attributes are those of the op, where it has any.
func (o *Op) owns(attrs any) bool {
	return o.Schema == nil || len(o.Schema.Fields) == 0 || reflect.TypeOf(attrs) == reflect.PointerTo(o.Schema.typ)
}

// walks is what an implementation that says nothing of its walks can do.
func (o *Op) walks(c *Call, candidates []tensor.Order) []Walk {
	list := []Walk{{}}
	if o.Kind != Follows && !o.AnyOrder || len(c.Out) == 0 {
		return list
	}
	for _, order := range candidates {
		if order.Rank() == c.Out[0].Rank() && order != "" {
			list = append(list, c.InOrder(order))
		}
	}
	return list
}

func readAny(c *Call, w Walk, i int, m tensor.Meta) (Work, bool) {
	if len(c.Out) == 0 {
		return Work{}, true
	}
	if f, ok := c.Attrs.(*Fusion); ok && f.Mask != nil && f.effort != nil {
		if x, ok := f.folds(c); ok {
			return x.read(f.effort(), c, w, i, m), true
		}
	}
	return ReadWork(m, w.Lay(0, c.Out[0])), true
}
