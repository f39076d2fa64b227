// Package rowprog runs expressions that fold rows ([expr.RowProgram]) over tensors: dimensions are kept, or reduced to
// one element each. It brings rows, whatever the layout, to loops over runs of memory, keeps them in the cache from
// sweep to sweep, and cuts the work into chunks by shapes and strides alone, so that results have the same bits for
// any number of workers.
//
// There are two ways. By rows a loop runs along the reduced dimensions and folds into the lanes of a row; what is
// computed once a row is a loop over the rows that go together. By columns, where a kept dimension is the
// contiguous one, a loop runs along that, and the accumulators of neighbouring results are a stream of their own.
// Operands that suit neither are brought to memory of the worker first.
package rowprog

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Plan is an expression over rows made ready for fixed layouts. It is immutable and safe for concurrent use.
type Plan struct {
	s         *expr.RowProgram
	nouts     int
	metas     []tensor.Meta // outputs, then operands, then the places in a row if the expression asks for them
	places    []int32       // from 0 on
	kept, red []axis
	reduced   int  // elements of a row
	columns   bool // loops run along kept[0]
	beside    int  // positions along kept[0] that are parts of one row
	single    bool // by rows, of one reduced axis: several rows go together
	tile      int  // positions along kept[0] that go together, at most
	pieces    int  // tiles along kept[0]
	units     int  // tiles
	perChunk  int  // tiles in a chunk
	cutAxis   int  // the reduced axis that is cut, or -1
	cut, cuts int  // length along it and number of the cuts
	weight    int  // of an element's work, about
	fence     bool // loops write past the caches

	objects []object
	moves   []move
	steps   []step
	partial []partial
	all     *overlap // nil where sweeps run one after the other
	depth   int      // tiles that sweeps are at at a time
	// group is how many rows each sweep goes over together in a loop that stops between none of a chunk's: 0 for tiles.
	group   int
	worker  int
	scratch int
}

// kept0 names the first kept axis among the reduced ones.
const kept0 = -1

// The cut of a row decides bits. So these are constants: minChunks is the number of chunks below which rows are
// cut, up to maxCuts.
const (
	minChunks = 16
	maxCuts   = 64
	// level is the number of elements that a column adds up before the sum goes to the next level, which bounds the
	// rounding error.
	level = 256
	// cacheBytes is what a tile takes of the cache between sweeps, about.
	cacheBytes = 1 << 16
	maxColumns = 2048
	fewColumns = 512 // of one sweep over many elements: rows that lie far apart are asked for in time
	minColumns = 256 // of several sweeps, even where their columns then leave the cache
	maxRows    = 64
	// maxPointers is how many a loop over several elements of columns has, at most: more would not stay in
	// registers. The elements are farBytes apart, at least: the processor reads ahead of several places at a time
	// then, while what lies closer is read ahead best in order.
	maxPointers = 8
	farBytes    = 4096
)

// New plans an expression with folds: outs and ins are its outputs and operands, all of one rank. Those that are
// broadcast along a dimension have size 1 or stride 0 there; so are, along the dimensions that mask marks as
// reduced, outputs with one element for a row. Every output has the full size along kept dimensions.
func New(c *expr.Code, outs, ins []tensor.Meta, mask []bool, way Way) (*Plan, error) {
	p := &Plan{nouts: len(outs), metas: append(slices.Clone(outs), ins...), cutAxis: -1, cuts: 1}
	if err := checked(c, p.nouts, p.metas, mask); err != nil {
		return nil, err
	}
	c, err := p.position(c, mask)
	if err != nil {
		return nil, err
	}
	full, err := p.axes(mask)
	if err != nil {
		return nil, err
	}
	if p.reduced == 1 {
		c = c.Unscanned()
	}
	uniform, whole := make([]bool, len(c.In)), make([]bool, len(outs))
	for i := range p.metas {
		moves := slices.ContainsFunc(p.red, func(a axis) bool { return a.step[i] != 0 })
		if i < p.nouts {
			whole[i] = moves
		} else {
			uniform[i-p.nouts] = !moves
		}
	}
	for i, m := range ins {
		if uniform[i] && m.Numel() == 0 && tensor.Numel(full) == 0 && p.results() > 0 {
			return nil, fmt.Errorf("rowprog: operand %d, %v, has no element for a row", i, m)
		}
	}
	if p.s, err = c.RowProgram(uniform, whole); err != nil {
		return nil, err
	}
	if p.s.Scans() && len(p.red) > 1 {
		return nil, errors.New("rowprog: a scan along several dimensions")
	}
	p.choose(way)
	p.partRows()
	p.cutTiles()
	if err := p.build(); err != nil {
		return nil, err
	}
	return p, nil
}

// results is the number of rows.
func (p *Plan) results() int { return elementsOf(p.kept) }

// axes sorts the dimensions into kept and reduced ones, those with the shortest steps first, neighbours that form
// one run joined.
func (p *Plan) axes(mask []bool) (full []int, err error) {
	if full, err = fullShape(p.metas, len(mask)); err != nil {
		return nil, err
	}
	p.kept, p.red = axesOf(full, p.metas, mask)
	p.reduced = elementsOf(p.red)
	lead := p.lead()
	key := func(a axis) int {
		if s := a.step[lead]; s != 0 {
			return max(s, -s)
		}
		return math.MaxInt
	}
	byStep := func(a, b axis) int {
		switch x, y := key(a), key(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(p.kept, byStep)
	slices.SortStableFunc(p.red, byStep)
	p.kept, p.red = joined(p.kept, len(p.metas)), joined(p.red, len(p.metas))
	return full, nil
}

// lead is the operand with most elements, or an output where there is none.
func (p *Plan) lead() int {
	best, most := 0, -1
	for i := range p.metas {
		if n := p.elements(i); i >= p.nouts && n > most {
			best, most = i, n
		}
	}
	return best
}

// elements is the number of different elements of an output or operand.
func (p *Plan) elements(i int) int {
	n := 1
	for _, list := range [][]axis{p.kept, p.red} {
		for _, a := range list {
			if a.step[i] != 0 {
				n *= a.n
			}
		}
	}
	return n
}

// cutTiles cuts the results into tiles and chunks and, where there are few, rows into pieces.
func (p *Plan) cutTiles() {
	p.weight = 1
	for _, i := range p.s.Code.Insts {
		if !i.Op.Primitive() && i.Op != expr.Reduce {
			p.weight = 4
		}
	}
	grain := machine.ReduceGrain / p.weight
	row := 0 // bytes of all streams for a position along kept[0]
	for i, m := range p.metas {
		if p.differs(i) {
			row += m.DType.Size()
		}
	}
	for _, r := range p.s.Rows {
		row += r.DType.Size()
	}
	row = max(1, row*p.reduced)
	one := p.kept[0]
	switch fits := max(1, cacheBytes/row); {
	case p.columns && p.once():
		p.tile = min(maxColumns, max(fewColumns, grain/max(1, p.reduced)))
	case p.columns:
		p.tile = min(maxColumns, max(minColumns, fits&^31))
	case p.single && !p.stages() && p.once():
		p.tile = min(maxColumns, grain/max(1, p.reduced)) // nothing has to stay in the cache
	case p.single && !p.stages():
		p.tile = min(maxRows, fits)
	default:
		p.tile = 1 // one row, several runs of which go together or are brought to the worker's memory
	}
	p.tile = max(p.beside, min(p.tile, one.n)/p.beside*p.beside)
	p.pieces = (one.n + p.tile - 1) / p.tile
	p.units = p.pieces * p.results() / max(1, one.n)
	work := p.tile * max(p.reduced, 1)
	p.perChunk = max(1, grain/work)
	if p.single && !p.stages() && len(p.s.Passes) > 1 { // of which there are many in a chunk where sweeps run at once
		p.perChunk = max(p.perChunk, min(max(24, p.units/64), p.units/4, 1<<19/work))
	}
	pieces, least := (work+grain-1)/grain, 2*grain
	if p.columns {
		// Evenly, and sooner: of the image that a convolution made each worker has half of the rows near, and the other
		// half would be fetched from another's cache, and again by who writes there what is scaled by the mean.
		pieces, least = machine.CutUnits(p.reduced, p.tile, grain).Chunks, grain/2
	}
	if chunks := (p.units + p.perChunk - 1) / p.perChunk; p.units > 0 && chunks < minChunks && work >= least &&
		p.once() && len(p.s.Passes[0].Folds) > 0 {
		p.cutRows(pieces)
	}
}

// cutRows cuts the longest reduced axis into so many pieces, or fewer.
func (p *Plan) cutRows(pieces int) {
	for d, a := range p.red {
		if p.cutAxis < 0 || a.n > p.red[p.cutAxis].n {
			p.cutAxis = d
		}
	}
	n := p.red[p.cutAxis].n
	p.cuts = min(pieces, (maxCuts+p.units-1)/p.units, n)
	p.cut = (n + p.cuts - 1) / p.cuts
	if !p.columns && p.cutAxis == 0 && p.cut > expr.Lanes {
		p.cut = (p.cut + expr.Lanes - 1) / expr.Lanes * expr.Lanes
	}
	if p.cuts = (n + p.cut - 1) / p.cut; p.cuts < 2 {
		p.cutAxis, p.cuts = -1, 1
	}
}

// suits reports whether loops take operand i as it lies: a run along the axis that they follow or, of an operand,
// one element for all of it.
func (p *Plan) suits(i int) bool {
	a := p.red[0]
	if p.columns {
		a = p.kept[0]
	}
	return a.n == 1 || a.step[i] == p.metas[i].DType.Size() || a.step[i] == 0 && i >= p.nouts
}

// differs reports whether operand i differs within a row.
func (p *Plan) differs(i int) bool {
	if i < p.nouts {
		return p.s.Whole[i]
	}
	return !p.s.Uniform[i-p.nouts]
}

// far reports whether an output would not stay in the caches: it is written once then, past them, and rows that are
// put aside have memory of the worker.
func (p *Plan) far(o int) bool {
	m := p.metas[o]
	return p.s.Whole[o] && p.suits(o) && m.Numel()*m.DType.Size() >= machine.FarBytes
}

// stages reports whether something is brought to the worker's memory row by row.
func (p *Plan) stages() bool {
	for i := range p.metas {
		if p.differs(i) && !p.suits(i) {
			return true
		}
	}
	return false
}

// span is the number of positions along an axis in a tile, at most.
func (p *Plan) span(ax int) int {
	switch ax {
	case kept0:
		return p.tile
	case p.cutAxis:
		return p.cut
	}
	return p.red[ax].n
}

// inner is the axis that elements of a loop's row follow, and outer that of its rows, which may be beyond all axes.
// The others, all of them reduced, come after these among the reduced ones.
func (p *Plan) inner() int {
	if p.columns {
		return kept0
	}
	return 0
}

func (p *Plan) outer() int {
	switch {
	case p.columns:
		return 0
	case p.single:
		return kept0
	}
	return 1
}

// rest is the first reduced axis that loops do not follow.
func (p *Plan) rest() int {
	if p.columns || p.single {
		return 1
	}
	return 2
}

// Phases returns the number of phases. One begins when all chunks of the one before have ended.
func (p *Plan) Phases() int {
	if p.units == 0 {
		return 0
	}
	return min(p.cuts, 2)
}

// Chunks returns the number of chunks of a phase, which may run in any order and at the same time: a matter of
// shapes and strides alone.
func (p *Plan) Chunks(phase int) int {
	switch {
	case phase > 0:
		return p.units
	case p.cuts > 1:
		return p.units * p.cuts
	}
	return (p.units + p.perChunk - 1) / p.perChunk
}

// Scratch returns the bytes of memory that all chunks share, Worker those that each worker needs for itself. Both
// must be 64-byte aligned, of any content.
func (p *Plan) Scratch() int { return p.scratch }

// Worker is told with Scratch.
func (p *Plan) Worker() int { return p.worker }

// Program returns the row program that the plan runs.
func (p *Plan) Program() *expr.RowProgram { return p.s }

// PerElement estimates what an element takes in all sweeps where it is in the nearest cache, in nanoseconds; it is
// 0 where no machine code was made, and nothing is known.
func (p *Plan) PerElement() (ns float64) {
	if !p.Compiled() {
		return 0
	}
	for i := range p.steps {
		if l := p.steps[i].loop; l != nil {
			ns += l.PerElement()
		}
	}
	return ns
}

// Compiled reports whether all loops are machine code.
func (p *Plan) Compiled() bool {
	for i := range p.steps {
		st := &p.steps[i]
		if st.loop != nil && !st.loop.Compiled() || st.after != nil && !st.after.Compiled() {
			return false
		}
	}
	return true
}

// ByColumns reports whether loops run along a kept dimension.
func (p *Plan) ByColumns() bool { return p.columns }

// InPlace returns the pairs of an output and an operand whose memory it may take, if nobody needs the operand
// afterwards.
func (p *Plan) InPlace() [][2]int {
	var pairs [][2]int
	for o := range p.nouts {
		if !p.s.Whole[o] {
			continue
		}
		written := p.firstWrite(o)
		for i, m := range p.given()[p.nouts:] {
			if m.DType.Size() == p.metas[o].DType.Size() && m.SameAddresses(p.metas[o]) && p.lastRead(o) <= written {
				pairs = append(pairs, [2]int{o, i})
			}
		}
	}
	return pairs
}

// firstWrite is the first sweep that writes to an output, or to a row in its memory.
func (p *Plan) firstWrite(o int) int {
	for k := range p.s.Passes {
		for _, q := range p.s.Passes[k].Out {
			if q.Kind == expr.AtOutput && q.N == o || q.Kind == expr.AtRow && p.s.Rows[q.N].Out == o {
				return k
			}
		}
	}
	return 0
}

// lastRead is the last sweep that reads an operand that lies as an output does: several may be the same memory.
func (p *Plan) lastRead(o int) int {
	last := 0
	for k, w := range p.s.Passes {
		for n, list := range [2][]expr.Place{w.In, w.AfterIn} {
			for _, q := range list {
				if q.Kind == expr.AtOperand && p.metas[p.nouts+q.N].SameAddresses(p.metas[o]) {
					last = max(last, k+n)
				}
			}
		}
	}
	return last
}
