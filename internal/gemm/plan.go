package gemm

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Source says where the elements of an operand come from.
type Source uint8

const (
	// Strided reads the operand in place, at any strides in elements
	// including 0 (broadcast) and negative ones.
	Strided Source = iota
	// Prepacked reads the output of PackA or PackB; strides are ignored.
	Prepacked
	// Custom asks a PackFunc for panels; strides are ignored.
	Custom
)

// Operand describes A (m×k) or B (k×n). Strides are in elements.
type Operand struct {
	Source    Source
	RowStride int
	ColStride int
	// Panel is the number of columns of a panel of a Prepacked B: PanelCols or PanelColsOf; 0 means the former.
	Panel int
}

// Bias selects a vector added to every row or column of the product.
type Bias uint8

const (
	NoBias   Bias = iota
	BiasRows      // bias[i] is added to all of row i: m elements
	BiasCols      // bias[j] is added to all of column j: n elements
)

// Way is how a product is computed.
type Way uint8

const (
	// Any is the one that suits: Loops for tiny products, Thin where few rows or columns allow it, else
	// Tiled.
	Any Way = iota
	// Loops are plain loops over strided operands.
	Loops
	// Thin reads the larger of strided operands where it is, once: for few rows or columns.
	Thin
	// Tiled packs operands into panels, unless they come so, and multiplies tiles that stay in registers.
	Tiled
)

// Supports reports whether a product can be computed in a way. The dtype makes no difference.
func Supports(s Spec, w Way) bool {
	strided := s.A.Source == Strided && s.B.Source == Strided
	switch w {
	case Loops:
		return strided
	case Thin:
		p := &Plan{spec: s}
		return strided && s.M > 0 && s.N > 0 && s.K > 0 && p.planDirect()
	case Tiled:
		return s.M > 0 && s.N > 0 && s.K > 0
	}
	return w == Any
}

// Spec is the shape-level description of C = A·B + bias, or of C += A·B + bias
// with Accumulate. All strides are in elements.
type Spec struct {
	DType      tensor.DType // of A, B, C and the bias
	M, N, K    int
	A, B       Operand
	CRowStride int
	CColStride int
	Accumulate bool
	Bias       Bias
	BiasStride int
	Way        Way
	// Near disables prefetching of B: it is in the caches already, since products with it follow one another.
	Near bool
}

// Args are the per-execution inputs of a plan. A, B and Bias may overlap one
// another; C must overlap none of them nor Shared.
type Args struct {
	A, B, C unsafe.Pointer
	Bias    unsafe.Pointer
	PackA   PackFunc // for Source Custom
	PackB   PackFunc
	// Shared has SharedBytes bytes and carries packed panels from one phase
	// to the next; contents before the first phase do not matter.
	Shared []byte
	// Epilogue, when set, is called for a part of a tile after C[i0:i1, j0:j1]
	// got its final values, by the goroutine that ran the tile, while the part
	// is in the caches. The calls of one execution cover C exactly once.
	Epilogue func(i0, i1, j0, j1 int)
	// Look, when set, is called after every few million multiplications. Its panic ends Run.
	Look func()
}

type path uint8

const (
	pathSimple path = iota // strided loops, for tiny and for empty sums
	pathDot                // few rows, columns of B contiguous
	pathAxpy               // few rows, rows of B contiguous
	pathTiled              // packed panels and register tiles
)

// side is how the tiled path feeds one operand to the kernels.
type side struct {
	source Source
	shared bool // packed once by a packing phase, else per tile
	place  bool // read where it is
	kept   bool // brought into panels by the first tiles that read it where it is
	w      int  // panel width
	size   int  // of an element in bytes
	lanes  int  // m or n
	ls, ks int  // strides along lanes and along K
}

// Plan is an immutable multiplication schedule; see the package comment for
// its phases. It is safe for concurrent use.
type Plan struct {
	spec    Spec // as executed: A and B trade places when swapped is set
	swapped bool
	path    path
	set     *kernelSet
	a, b    side
	block   int // rows of A that are gone through for each panel of B
	kc      int // depth of a K block: one pass over a C tile
	kd      int // depth of a K super-block: what Shared holds at once, and what a call of the direct paths sums
	mt, nt  int // rows and columns of a tile
	mTiles  int
	nTiles  int
	worker  workerLayout
	shared  int
	codes   *codes        // of a set of machine code
	first   int           // columns of a tile of the first rows, where those keep B for the others
	every   int           // terms after which a row of the next panel of B is asked for, where it is
	far     bool          // rows of the result are asked for before they are written
	ahead   [readings]int // lines of the next panel of B, for every few terms
	across  bool          // all rows are one tile: a call goes from panel to panel of B
	again   *again        // what is called in every run; nil where that is not listed
}

// workerLayout holds offsets into an aligned worker scratch, in bytes.
type workerLayout struct {
	b, tile, rowBias, colBias, total int
}

var (
	errShape  = errors.New("gemm: negative dimension")
	errOption = errors.New("gemm: unknown source, bias, way or panel")
	errWay    = errors.New("gemm: the product cannot be computed in the way that is asked for")
)

// NewPlan schedules a multiplication. The schedule depends on the spec and on
// the CPU's kernel set only.
func NewPlan(s Spec) (*Plan, error) {
	if !Multiplies(s.DType) {
		return nil, fmt.Errorf("gemm: no products of %v", s.DType)
	}
	return newPlan(kernelsOf(s.DType), s, sharedElems)
}

// newPlan is NewPlan for a given kernel set and bound on shared elements.
func newPlan(set *kernelSet, s Spec, maxShared int) (*Plan, error) {
	if s.M < 0 || s.N < 0 || s.K < 0 {
		return nil, errShape
	}
	if s.A.Source > Custom || s.B.Source > Custom || s.Bias > BiasCols || s.Way > Tiled || !set.hasPanel(s.B) {
		return nil, errOption
	}
	p := &Plan{spec: s, set: set}
	if s.N == 1 {
		p.spec.CColStride = 1
	}
	if !Supports(s, s.Way) && s.M > 0 && s.N > 0 && s.K > 0 {
		return nil, errWay
	}
	strided := s.A.Source == Strided && s.B.Source == Strided
	tiny := s.M*s.N <= simpleMACs && s.M*s.N*s.K <= simpleMACs
	switch {
	case s.M == 0 || s.N == 0 || s.K == 0, s.Way == Loops, s.Way == Any && strided && tiny:
		p.planSimple()
	case (s.Way == Any || s.Way == Thin) && strided && p.planDirect():
	default:
		p.sides()
		p.planTiled(maxShared)
		if set.coded() {
			if err := p.compile(); err != nil {
				return nil, err
			}
			p.listCalls()
		}
	}
	return p, nil
}

// swap turns the product into Cᵀ = Bᵀ·Aᵀ.
func (p *Plan) swap() {
	s := &p.spec
	p.swapped = !p.swapped
	s.M, s.N = s.N, s.M
	s.A, s.B = s.B, s.A
	s.A.RowStride, s.A.ColStride = s.A.ColStride, s.A.RowStride
	s.B.RowStride, s.B.ColStride = s.B.ColStride, s.B.RowStride
	s.CRowStride, s.CColStride = s.CColStride, s.CRowStride
	switch s.Bias {
	case BiasRows:
		s.Bias = BiasCols
	case BiasCols:
		s.Bias = BiasRows
	}
}

// sides decides where the packed path reads each operand.
func (p *Plan) sides() {
	s, size := &p.spec, p.set.size
	strided := s.A.Source == Strided && s.B.Source == Strided
	if strided && s.M > 1 && s.CColStride != 1 && s.CRowStride == 1 {
		p.swap()
	}
	depth := p.set.kc
	if p.set.coded() && (s.A.Source == Custom || s.B.Source == Custom) {
		depth = packedDepth
	}
	p.kc = ceilDiv(s.K, ceilDiv(s.K, depth))
	p.a = side{source: s.A.Source, size: size, w: p.set.mr, lanes: s.M, ls: s.A.RowStride, ks: s.A.ColStride}
	p.b = side{source: s.B.Source, size: size, w: p.set.nr, lanes: s.N, ls: s.B.ColStride, ks: s.B.RowStride}
	if s.A.Source == Strided {
		p.a.w = p.set.panelRows(s.M)
	}
	if s.B.Panel > 0 {
		p.b.w = s.B.Panel
	}
	if p.set.coded() {
		p.placeOperands()
	}
}

// Packs reports which of the strided operands of a product [Tiled] packs into panels.
func Packs(s Spec) (a, b bool) {
	if s.M <= 0 || s.N <= 0 || s.K <= 0 {
		return false, false
	}
	p := &Plan{spec: s, set: kernelsOf(s.DType)}
	p.sides()
	if p.swapped {
		return p.b.inPanels(), p.a.inPanels()
	}
	return p.a.inPanels(), p.b.inPanels()
}

// planTiled fixes the blocking of the packed path.
func (p *Plan) planTiled(maxShared int) {
	s, size := &p.spec, p.set.size
	p.path = pathTiled
	g := chooseGrid(p.a, p.b, s.K, p.kc, p.set.mostTiles(s.M, s.N, s.K))
	p.mt, p.nt, p.mTiles, p.nTiles = g.mt, g.nt, g.mTiles, g.nTiles
	p.a.shared, p.b.shared = g.shareA, g.shareB

	lanes := 0
	for _, d := range []side{p.a, p.b} {
		if d.shared {
			lanes += roundUp(d.lanes, d.w)
		}
	}
	p.block = p.blockRows()
	p.first = min(p.nt, p.b.w*max(1, machine.MACGrain/(p.mt*p.b.w*min(s.K, p.kc)))) // a worker has room for nt of the bias
	p.kd = s.K
	if lanes*s.K > maxShared {
		p.kd = min(s.K, max(p.kc, maxShared/lanes/p.kc*p.kc))
	}
	if lanes > 0 {
		p.shared = lanes*p.kd*size + alignBytes
	}
	l := &p.worker
	room := func(elems int) int { return roundUp(elems*size, alignBytes) }
	if p.a.local() {
		l.b = room(p.mt * p.kc)
	}
	l.tile = l.b
	if p.b.local() {
		l.tile += room(p.nt * p.kc)
	}
	l.rowBias = l.tile + room(max(p.set.mr, maxHeight)*p.set.nr)
	l.colBias = l.rowBias
	if s.Bias == BiasRows {
		l.colBias += room(p.mt + p.set.mr)
	}
	l.total = l.colBias + alignBytes
	if s.Bias == BiasCols {
		l.total += (p.nt + p.set.nr) * size
	}
}

// placeOperands decides which operands are read where they are.
func (p *Plan) placeOperands() {
	s := &p.spec
	if s.A.Source == Strided {
		p.a.place = p.a.ks == 1 || p.a.ls == 1 && !p.a.crowds(p.kc)
	}
	if s.B.Source == Strided && p.b.ls == 1 {
		small := s.M <= someRows || !p.leavesCache(s.K*s.N, machine.L2Bytes/2, machine.L2Bytes/4*5)
		p.b.place = s.M <= fewRows || small && !p.b.crowds(p.kc)
		p.b.kept = !p.b.place && !p.a.packs()
	}
}

// crowds reports whether so many elements of one lane, by a stride with a large power of two in it, lie in so few sets
// of L2 that they drive one another out.
func (d side) crowds(depth int) bool {
	step := d.ks * d.size
	return depth*(step&-step) > machine.L2Bytes
}

// leavesCache reports whether so many elements, of an operand or the result, take so many bytes at least, and all three
// together so many that L2 does not keep them from tile to tile.
func (p *Plan) leavesCache(elems, bytes, all int) bool {
	s, size := &p.spec, p.b.size
	return elems*size >= bytes && (s.M*s.K+s.K*s.N+s.M*s.N)*size >= all
}

// along reports whether elements of one lane are side by side in memory, rather than those of one depth.
func (d side) along() bool { return d.place && d.ks == 1 }

// packs reports whether the operand is brought into panels before tiles are computed.
func (d side) packs() bool { return d.inPanels() && !d.kept }

// inPanels reports whether there are panels of the operand while the plan runs.
func (d side) inPanels() bool { return d.source != Prepacked && !d.place }

// local reports whether each tile has panels of the operand for itself.
func (d side) local() bool { return d.inPanels() && !d.shared }

// DType is the dtype of the operands.
func (p *Plan) DType() tensor.DType { return p.spec.DType }

// PackRows is the panel width W that PackA callbacks fill.
func (p *Plan) PackRows() int { return p.set.mr }

// PackCols is the panel width W that PackB callbacks fill.
func (p *Plan) PackCols() int { return p.set.nr }

// SharedBytes is the length of Args.Shared.
func (p *Plan) SharedBytes() int { return p.shared }

// WorkerBytes is the length of the scratch of one Run call; concurrent
// calls need distinct ones.
func (p *Plan) WorkerBytes() int { return p.worker.total }

// shares reports whether tiles share panels.
func (p *Plan) shares() bool { return p.a.shared || p.b.shared }

// part is what a phase computes.
type part uint8

const (
	allRows   part = iota // the whole product
	packing               // nothing: it packs
	firstRows             // the first row of tiles, which keep B for the others
	otherRows             // the others
)

// perBlock is the number of phases of a super-block of K.
func (p *Plan) perBlock() int {
	if p.b.kept && p.mTiles == 1 {
		return 1
	}
	return 2
}

// at returns the super-block of K of a phase, and its part.
func (p *Plan) phase(phase int) (block int, what part) {
	if !p.shares() {
		return 0, allRows
	}
	per := p.perBlock()
	block, phase = phase/per, phase%per
	switch {
	case phase == 0 && p.b.kept:
		return block, firstRows
	case phase == 0:
		return block, packing
	case p.b.kept:
		return block, otherRows
	}
	return block, allRows
}

// Phases is the number of phases. All tiles of a phase must have finished
// before a tile of the next one starts; tiles within a phase are independent.
func (p *Plan) Phases() int {
	if !p.shares() {
		return 1
	}
	return p.perBlock() * ceilDiv(p.spec.K, p.kd)
}

// Tiles is the number of tiles of a phase.
func (p *Plan) Tiles(phase int) int {
	block, what := p.phase(phase)
	switch what {
	case packing:
		depth := p.superDepth(block)
		return p.a.packTiles(depth) + p.b.packTiles(depth)
	case firstRows:
		return ceilDiv(p.spec.N, p.first)
	case otherRows:
		return (p.mTiles - 1) * p.nTiles
	}
	return p.mTiles * p.nTiles
}

// tile returns the rows and columns of a tile of a part that computes.
func (p *Plan) tile(what part, tile int) (i0, i1, j0, j1 int) {
	rows, above, cols := p.mTiles, 0, p.nt
	switch what {
	case firstRows:
		rows, cols = 1, p.first
	case otherRows:
		rows, above = p.mTiles-1, 1
	}
	i0, j0 = (tile%rows+above)*p.mt, tile/rows*cols
	return i0, min(i0+p.mt, p.spec.M), j0, min(j0+cols, p.spec.N)
}

// superDepth is the depth of K super-block i; only the last is short.
func (p *Plan) superDepth(i int) int { return min(p.kd, p.spec.K-i*p.kd) }
