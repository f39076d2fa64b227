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

// ErrNoImpl is the error of a call whose layouts no implementation of the op supports.
var ErrNoImpl = errors.New("no implementation supports these layouts")

// Impl is an implementation of an op: an algorithm that can be listed, priced and forced. [Define] sets fields that are
// nil. For an op without implementations it makes one Impl from Compile.
type Impl struct {
	Name string // unique within the op: "nhwc"
	Doc  string // how it computes, in one sentence

	// Inexact means that the implementation computes another formula than the op's definition. The two formulas agree for
	// real numbers, but their rounding differs by more than a change of the order of additions causes. Exact plans exclude
	// the implementation.
	Inexact bool

	// Walks returns the walks that the implementation supports for a call, the preferred walk first. It returns none if
	// the implementation does not support the call. c.Out has the inferred results. candidates are orders that the planner
	// considers for the first result. If Walks is nil, Define's default returns the inferred order and, for an op that
	// writes any order, every candidate.
	Walks func(c *Call, candidates []tensor.Order) []Walk
	// Read returns the additional work for operand i in layout m, compared with the layout that suits the walk. It returns
	// false if the implementation cannot read the layout; the operand must then be copied. m need not be dense: it may be
	// a slice or a broadcast. If Read is nil, operands are read in any layout.
	//
	// The price of a node is the price of Work plus the price of Read for each operand. The layouts of the operands in the
	// call must therefore not affect Work, Read and Walks. These functions may use the shapes and dtypes of the operands,
	// which of them are constants, and their other arguments.
	Read func(c *Call, w Walk, i int, m tensor.Meta) (Work, bool)
	// Writes reports whether the kernel can write result i in layout m. m is a slice of a larger value and has the order
	// of the walk. If Writes is nil, the kernel writes only dense values.
	Writes func(c *Call, w Walk, i int, m tensor.Meta) bool
	// Work is the work of computing and storing the results, and of reading every operand once in the layout that suits
	// the walk. If Work is nil, the op's Pricing computes the work. Without a Pricing it is computed from Each, Flops and
	// one access to every byte.
	Work func(c *Call, w Walk) Work
	// Pack returns the packed form of operand i, a constant, for the call with its walk and final results. It returns
	// false if the operand is read unpacked. Pack must not read the data of the operand. Its answer must be the same if
	// the operand is already packed. If Pack is nil, no operand is packed.
	Pack func(c *Call, i int) (Packing, bool)
	// Lower makes the kernel; c.Out has the final results. An operand with a packed form is usually packed, but is
	// unpacked if memory is short: see [Call.Packed].
	Lower func(c *Call) (*Kernel, error)
	// Epilogues means that Lower accepts calls with a [Call.Epilogue] if the result is float32, float64 or int32. The
	// kernel applies the epilogue once to every final element of its only result. Passes then fuse a node with the
	// pointwise nodes that follow it.
	Epilogues bool

	hasRead bool // the definition has a Read function, which may reject layouts

	// readWithoutFootprint is the Read function of the definition, without the footprint that Define adds. It is nil
	// before the op is defined.
	readWithoutFootprint func(c *Call, w Walk, i int, m tensor.Meta) (Work, bool)
}

// Walk has the order of the loops of a call, and the layouts of its results. With the zero Walk the results have the
// inferred layouts.
type Walk struct {
	// Order is the order in which loops nest the dimensions of the first result. An empty Order follows the layouts of
	// the operands.
	Order tensor.Order
	// Out has the order of each result. An empty or missing order means the inferred layout.
	Out []tensor.Order
}

// InOrder returns the walk with loops in order o, and with results of the same rank in that order.
func (c *Call) InOrder(o tensor.Order) Walk {
	w := Walk{Order: o, Out: make([]tensor.Order, len(c.Out))}
	for i, m := range c.Out {
		if m.Rank() == o.Rank() {
			w.Out[i] = o
		}
	}
	return w
}

// HasInferredLayouts reports whether all results have their inferred layouts.
func (w Walk) HasInferredLayouts() bool {
	return !slices.ContainsFunc(w.Out, func(o tensor.Order) bool { return o != "" })
}

// ResultLayout returns the layout of result i under the walk. m is the inferred layout. If m is already dense in the
// walk's order, ResultLayout returns m with its strides of dimensions of size 1.
func (w Walk) ResultLayout(i int, m tensor.Meta) tensor.Meta {
	if i < 0 || i >= len(w.Out) || w.Out[i] == "" || w.Out[i].Rank() != m.Rank() || w.Out[i].Holds(m) {
		return m
	}
	return m.WithStrides(w.Out[i].Strides(m.Shape))
}

// Work is an amount of work in units that a cost profile prices: bytes for each kind of access, units of inner kernels,
// and steps.
type (
	Work   = machine.Work
	Access = machine.Access
	Part   = machine.Part
)

// The kinds of memory access.
const (
	Dense          = machine.Dense          // contiguous access during computation
	DenseConstants = machine.DenseConstants // contiguous access to large constants during computation
	Panels         = machine.Panels         // access to packed constants, which products read by register tiles
	Copied         = machine.Copied         // contiguous access without computation
	Tiled          = machine.Tiled          // access that transposes tile by tile
	Strided        = machine.Strided        // access to a part of every cache line
	Gathered       = machine.Gathered       // random access
)

// Work returns the work of a node: computing, storing, and reading each operand once. If no implementation is chosen,
// it returns the work of the first implementation. The work is zero for a view, for a node without implementations, if
// shapes are unknown, and if the op's functions panic.
func (n *Node) Work() (w Work) {
	for _, v := range n.Works() {
		w = w.Plus(v)
	}
	return w
}

// Works returns the parts of [Node.Work] that are priced separately. The first part does not depend on the layouts of
// operands. Each further part is the additional work for the layout of one operand, if it is not zero. Works returns
// nil if there is no work.
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

// EachWork calls visit for each part of [Node.Works]. i is the index of the operand, or -1 for the part that does not
// depend on layouts. If selected is not nil, EachWork skips the parts for which selected returns false. EachWork
// returns false if the node has no work, or if the op's functions panic.
func (n *Node) EachWork(selected func(i int) bool, visit func(i int, w Work)) (hasWork bool) {
	if n == nil || visit == nil || n.Op == nil || len(n.Op.Impls) == 0 || len(n.Out) == 0 {
		return false
	}
	defer func() {
		if recover() != nil {
			hasWork = false
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
	if selected == nil || selected(-1) {
		visit(-1, impl.Work(c, n.Walk))
	}
	read := impl.Reader(c, n.Walk)
	for i, a := range n.In {
		if a.Kind == TensorArg && (selected == nil || selected(i)) {
			w, _ := read(i, a.Meta())
			visit(i, w)
		}
	}
	return true
}

// Reader returns a function that calls [Impl.Read] for operand i of one call, in layout meta. For many operands and
// layouts this is faster than calling Read, because the footprint of the call is computed only once. The function is
// not safe for concurrent use.
func (m *Impl) Reader(c *Call, w Walk) func(i int, meta tensor.Meta) (Work, bool) {
	read, touched := m.readWithoutFootprint, 0.0
	if read == nil {
		read = m.Read
	}
	return func(i int, meta tensor.Meta) (Work, bool) {
		r, ok := read(c, w, i, meta)
		if r.Footprint == 0 && r != (Work{}) {
			if touched == 0 {
				touched = c.Footprint()
			}
			r.Footprint = touched
		}
		return r, ok
	}
}

// Footprint returns the size of all operands and results of a call in bytes.
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
			bytes += float64(float64(tensor.Numel(m.Shape)) * float64(m.DType.Size()))
		}
	}
	for i := range c.Out {
		bytes += float64(c.Out[i].Bytes())
	}
	return bytes
}

// ReadWork returns the additional work of reading an operand of layout m in loops that write a result of the given
// layout. It is added to the work of reading each byte once in the order of the loops. If the fastest dimensions
// differ, the operand is transposed through blocks. If its elements are not contiguous, it is read with strides. If its
// contiguous runs are shorter than the runs of the result, as in a slice of each row, each run begins without
// prefetched lines. If there are no elements, the work is zero.
func ReadWork(m, result tensor.Meta) (w Work) {
	extent := m.Extent()
	if result.Extent() == 0 { // panics if strides are missing
		return w
	}
	bytes, d := float64(min(m.Bytes(), extent*m.DType.Size())), Fastest(m)
	switch {
	case m.Rank() == result.Rank() && d != Fastest(result):
		w.Bytes[Tiled], w.Bytes[Dense] = 2*bytes, -bytes
		w.Do(LoopTransposed, float64(m.Numel()))
	case d >= 0 && m.Strides[d] > 1:
		w.Bytes[Strided], w.Bytes[Dense] = bytes, -bytes
	case m.Rank() == result.Rank():
		if runs := runsOf(m, result); runs > 1 {
			addRunStarts(&w, runs, bytes/runs)
			w.Bytes[Copied] = gapPrice * min(float64(extent*m.DType.Size()), runs*pageBytes)
		}
	}
	return w
}

const (
	// gapPrice is the price of a byte between the first and the last run, relative to a copied byte. The bytes of gaps
	// have a price because prefetching stops at the end of a run. At most pageBytes count for each run, because
	// prefetching also stops at the end of a page.
	gapPrice = .75
	// pageBytes is the size of a memory page.
	pageBytes = 4096
)

// runsOf returns the number of runs in an operand of layout m. A run is a maximal sequence of elements that are
// contiguous in the operand and in the result. runsOf returns 0 if operand and result have different numbers of
// elements, or if the operand repeats elements.
func runsOf(m, result tensor.Meta) float64 {
	length, total := 1, m.Numel()
	if total != result.Numel() {
		return 0
	}
	for length < total {
		next := -1
		for d, n := range m.Shape {
			if n > 1 && m.Strides[d] == 0 {
				return 0
			}
			if n > 1 && m.Strides[d] == length && result.Strides[d] == length {
				next = d
			}
		}
		if next < 0 {
			return float64(total) / float64(length)
		}
		length *= m.Shape[next]
	}
	return 1
}

// Fastest returns the dimension with the smallest positive stride among the dimensions of size over 1, or -1 if there
// is none.
func Fastest(m tensor.Meta) int {
	best := -1
	if len(m.Strides) != len(m.Shape) {
		return best
	}
	for d, s := range m.Shape {
		if s > 1 && m.Strides[d] > 0 && (best < 0 || m.Strides[d] < m.Strides[best]) {
			best = d
		}
	}
	return best
}

// Impl returns an implementation by name. If there is none, the error lists the names.
func (o *Op) Impl(name string) (*Impl, error) {
	for i := range o.Impls {
		if o.Impls[i].Name == name {
			return &o.Impls[i], nil
		}
	}
	return nil, o.noImpl(name, o.implNames())
}

// noImpl returns the error for a name that is no implementation. It lists the given names.
func (o *Op) noImpl(name string, names []string) error {
	if len(names) == 0 {
		return fmt.Errorf("%s has no implementations to choose from", o.Name)
	}
	hint := ""
	if near := suggest.Nearest(name, slices.Values(names)); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return fmt.Errorf("%s has no implementation %q: want one of %s%s", o.Name, name, strings.Join(names, ", "), hint)
}

func (o *Op) implNames() []string {
	names := make([]string, len(o.Impls))
	for i := range o.Impls {
		names[i] = o.Impls[i].Name
	}
	return names
}

// copyOpNames are the names of ops that can copy values: see CopyOp.
var copyOpNames = []string{"clone", "contiguous"}

// CopyOp returns the op of the catalogue by which passes copy values: see [Op.Copies].
func (g *Graph) CopyOp() (*Op, error) {
	for _, name := range copyOpNames {
		if o := g.Op(name); o != nil && o.Copies {
			return o, nil
		}
	}
	return nil, errors.New("the catalogue has no op that copies values")
}

// MayRejectLayouts reports whether the implementation has a Read function, so that it may reject operands of some
// layouts.
func (m *Impl) MayRejectLayouts() bool { return m.hasRead }

// supportsCall reports whether the implementation supports the call in its layouts: at least one walk produces the
// results in the layouts of c.Out and reads all operands.
func (m *Impl) supportsCall(c *Call) bool {
	var orders []tensor.Order
	for _, out := range c.Out {
		if o, dense := tensor.OrderOf(out); dense && !slices.Contains(orders, o) {
			orders = append(orders, o)
		}
	}
	for _, w := range m.Walks(c, orders) {
		if w.producesLayouts(c) && m.Reads(c, w) {
			return true
		}
	}
	return false
}

// producesLayouts reports whether the results in c.Out have the layouts of the walk.
func (w Walk) producesLayouts(c *Call) bool {
	for i, o := range w.Out {
		if i < len(c.Out) && o != "" && !o.Holds(c.Out[i]) {
			return false
		}
	}
	return true
}

// Reads reports whether the implementation reads all operands of the call in their layouts. An operand without elements
// can always be read.
func (m *Impl) Reads(c *Call, w Walk) bool {
	if c == nil || m.Read == nil || !m.hasRead {
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

// completeImpls sets the nil functions of the implementations, makes an Impl from Compile if there is none, and
// otherwise sets Compile.
func (o *Op) completeImpls() {
	if len(o.Impls) == 0 {
		if o.Compile == nil {
			return
		}
		impl := Impl{Name: "plain", Doc: "The only implementation.", Lower: o.Compile}
		if o.Pointwise != nil {
			impl = Impl{Name: "loop", Doc: "One loop over the elements, in the order that the iterator gives.", Lower: o.Compile,
				Writes: func(*Call, Walk, int, tensor.Meta) bool { return true }}
		}
		o.Impls = []Impl{impl}
	} else {
		o.Impls = slices.Clone(o.Impls)
		o.Compile = o.compileByImpl
	}
	for i := range o.Impls {
		m := &o.Impls[i]
		m.hasRead = m.Read != nil
		if m.Walks == nil {
			m.Walks = o.defaultWalks
		}
		if m.Read == nil {
			m.Read = o.defaultRead
		}
		if m.Work == nil {
			m.Work = o.defaultWork
		}
		m.readWithoutFootprint = m.Read
		m.Work, m.Read = withFootprint(m.Work), readWithFootprint(m.Read)
	}
}

// withFootprint returns a function like work that sets the footprint of the call in results without a footprint.
func withFootprint(work func(*Call, Walk) Work) func(*Call, Walk) Work {
	return func(c *Call, w Walk) Work {
		r := work(c, w)
		if r.Footprint == 0 {
			r.Footprint = c.Footprint()
		}
		return r
	}
}

// readWithFootprint is [withFootprint] for the work of reading an operand.
func readWithFootprint(read func(*Call, Walk, int, tensor.Meta) (Work, bool)) func(*Call, Walk, int,
	tensor.Meta) (Work, bool) {
	return func(c *Call, w Walk, i int, m tensor.Meta) (Work, bool) {
		r, ok := read(c, w, i, m)
		if r.Footprint == 0 && r != (Work{}) {
			r.Footprint = c.Footprint()
		}
		return r, ok
	}
}

// compileByImpl is the Compile function of an op with implementations. It uses the implementation that Fitting returns.
func (o *Op) compileByImpl(c *Call) (*Kernel, error) {
	m := o.Fitting(c)
	if m == nil {
		return nil, ErrNoImpl
	}
	return m.Lower(c)
}

// Fitting returns the chosen implementation of a call. If no implementation is chosen, it returns the first
// implementation that supports the call in its layouts. It returns nil if there is none, or if the attributes belong to
// another op.
func (o *Op) Fitting(c *Call) *Impl {
	if c == nil || len(c.Out) == 0 || !o.ownsAttrs(c.Attrs) {
		return nil
	}
	if c.Impl != nil {
		return c.Impl
	}
	for i := range o.Impls {
		if o.Impls[i].supportsCall(c) {
			return &o.Impls[i]
		}
	}
	return nil
}

// ownsAttrs reports whether attrs has the type of the op's attributes. It returns true if the op has no attributes.
func (o *Op) ownsAttrs(attrs any) bool {
	return o.Schema == nil || len(o.Schema.Fields) == 0 || reflect.TypeOf(attrs) == reflect.PointerTo(attrsType(o.Schema))
}

// defaultWalks is the default of [Impl.Walks].
func (o *Op) defaultWalks(c *Call, candidates []tensor.Order) []Walk {
	list := []Walk{{}}
	if o.Kind != FollowsOperands && !o.AnyOrder || len(c.Out) == 0 {
		return list
	}
	for _, order := range candidates {
		if order.Rank() == c.Out[0].Rank() && order != "" {
			list = append(list, c.InOrder(order))
		}
	}
	return list
}
