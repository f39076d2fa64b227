package conv

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// winogradRun is the code of a winogradConv and where it finds things. Where all is near, points and products are in a
// worker's own memory. Else sections follow one another, and all workers share their points, and by points their
// products, too.
type winogradRun struct {
	*winogradConv
	sections spans
	course   winogradWay
	packed   bool
	weight   int // bytes of scratch memory before the points: of a weight that was not packed

	operands map[winograd.Part]*winograd.Transform
	backs    map[resultCode]*winograd.Transform
	products map[int]*jit.Func // by rows

	point  int // bytes from a point to the next
	result int // the same of products
	block  int // bytes from a block's products to the next, where these are shared
	ahead  int // lines of the next weights that are asked for in a turn of the products' code
	tail   codeTail
	args   graph.PerWorker[winogradArgs]
}

// resultCode tells the codes of results apart: rows and columns of the tile that there are, and lanes of the last
// vector of a block.
type resultCode struct{ rows, cols, over int }

// winogradArgs is what a worker calls code with.
type winogradArgs struct {
	transform, product jit.Args
	tail               graph.TailRun
}

func (a *winogradArgs) release() {
	clear(a.transform.Ptr[:])
	clear(a.product.Ptr[:])
	a.tail.Release()
}

const (
	// transformGrain are elements of points that are worth a chunk, pointMACs the multiplications at points that are, and
	// callMACs those of a call, which must not last 50 us.
	transformGrain = 1 << 15
	pointMACs      = 1 << 19
	callMACs       = 1 << 20
	// partWeights are the bytes of a block's weights up to which chunks read them anew for as many tiles as registers
	// hold, since they stay in the second cache.
	partWeights = 768 << 10
	// near is how far before they are needed weights are asked for, in bytes.
	near = 8 << 10
)

func (w *winogradConv) kernel() (*graph.Kernel, error) {
	r := &winogradRun{winogradConv: w, sections: w.sections(), course: w.way(),
		operands: map[winograd.Part]*winograd.Transform{}, backs: map[resultCode]*winograd.Transform{},
		products: map[int]*jit.Func{}}
	r.tail = newCodeTail(w.s.tail, w.s.o, winograd.Tails)
	var err error
	if r.packed, err = w.inForm(); err != nil {
		return nil, err
	}
	if !r.packed {
		r.weight = kit.AlignUp(4 * w.transformed())
	}
	section, part := r.cut()
	r.point, r.result = section*w.room*4+pointPad, part*w.width*4+pointPad
	points := w.form.Points()
	k := &graph.Kernel{Scratch: r.weight, Code: r.listings}
	switch r.course {
	case allNear:
		k.Worker = kit.AlignUp(points*r.result) + points*r.point
	case byBlocks:
		k.Worker = points * r.result
		k.Scratch += points * r.point
	case byPoints:
		r.block = section * w.width * 4
		r.result = w.blocks*r.block + pointPad
		k.Scratch += points * (r.point + r.result)
	}
	if err := r.compile(); err != nil {
		return nil, err
	}
	k.Phases = r.phases()
	return k, nil
}

// phases brings the weight to the points, if it is not packed, and then computes section by section.
func (r *winogradRun) phases() (list []graph.Phase) {
	if !r.packed {
		list = append(list, r.packs())
	}
	if r.course == allNear {
		return append(list, r.whole())
	}
	for i := range r.sections.n {
		s := r.sections.at(i)
		list = append(list, r.transforms(s))
		if r.course == byPoints {
			list = append(list, r.pointwise(s), r.finishes(s))
		} else {
			list = append(list, r.multiplies(s))
		}
	}
	return list
}

// cut parts sections, and tells the most tiles of a section and of a part. Where a section takes several strips, the
// weights that follow are asked for meanwhile, in even parts: what comes from memory would else come for the first
// strip, which computes less than that takes.
func (r *winogradRun) cut() (section, part int) {
	few := math.MaxInt
	for i := range r.sections.n {
		parts, strips := r.parts(r.sections.at(i)), 0
		part = max(part, parts.most())
		for k := range parts.n {
			strips += r.strips(parts.at(k)).n
		}
		few = min(few, strips)
	}
	if r.course != allNear && few > 1 {
		r.ahead = kit.DivUp(tile.FewTerms*r.width*4/machine.LineBytes, few)
	}
	return r.sections.most(), part
}

// compile makes the code.
func (r *winogradRun) compile() error {
	s := r.s
	for _, ty := range r.distinct(r.down, s.ph, s.h, s.oh) {
		for _, tx := range r.distinct(r.across, s.pw, s.w, s.ow) {
			if err := r.compileTile(ty, tx); err != nil {
				return err
			}
		}
	}
	for i := range r.sections.n {
		parts := r.parts(r.sections.at(i))
		for k := range parts.n {
			strips := r.strips(parts.at(k))
			for strip := range strips.n {
				rows := strips.at(strip).n
				if err := compiled(r.products, rows, func() (*jit.Func, error) { return r.product(rows) }); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// distinct returns the first of n rows or columns of tiles for each part of a tile that may be there: of so many
// operands behind so many zeros, and so many results.
func (r *winogradRun) distinct(n, pad, size, results int) (list []int) {
	seen := map[[3]int]bool{}
	for i := range n {
		first, end := r.there(i, pad, size)
		if key := [3]int{first, end, min(r.form.M, results-i*r.form.M)}; !seen[key] {
			seen[key] = true
			list = append(list, i)
		}
	}
	return list
}

// there returns the range of tile i's rows or columns that is in the image; 0 and 0 for none.
func (r *winogradRun) there(i, pad, size int) (first, end int) {
	at := i*r.form.M - pad
	if first, end = max(0, -at), min(r.form.N(), size-at); first >= end {
		return 0, 0
	}
	return first, end
}

// compileTile makes the transforms of a tile.
func (r *winogradRun) compileTile(ty, tx int) error {
	p := r.part(ty, tx)
	if err := compiled(r.operands, p, func() (*winograd.Transform, error) {
		return r.form.Operands(r.isa, p, r.s.c%winograd.Lanes(r.isa))
	}); err != nil {
		return err
	}
	for _, block := range []int{0, r.blocks - 1} {
		c := r.resultCode(ty, tx, block)
		if err := compiled(r.backs, c, func() (*winograd.Transform, error) {
			return r.form.Results(r.isa, c.rows, c.cols, r.s.hasBias, r.tail.steps, c.over)
		}); err != nil {
			return err
		}
	}
	return nil
}

func compiled[K comparable, T any](of map[K]*T, key K, make func() (*T, error)) (err error) {
	if of[key] == nil {
		of[key], err = make()
	}
	return err
}

// product is the code of the products of so many tiles with a block of weights, point by point.
func (r *winogradRun) product(rows int) (*jit.Func, error) {
	spec := &tile.Spec{Size: 4, Rows: rows, Vectors: r.width / winograd.Lanes(r.isa), Near: near, Ahead: r.ahead,
		Runs:  []tile.Run{{InStep: 4, VecStep: 4 * r.width, Terms: r.s.c}},
		Tiles: tile.Loop{In: tile.Dynamic, Vec: tile.Dynamic, Out: tile.Dynamic}}
	for i := range rows {
		spec.In = append(spec.In, i*r.room*4)
		spec.Out = append(spec.Out, i*r.width*4)
	}
	return tile.Compile(spec, r.isa)
}

// part is what of the tile at (ty, tx) is in the image.
func (r *winogradRun) part(ty, tx int) winograd.Part {
	var p winograd.Part
	p.Row, p.RowEnd = r.there(ty, r.s.ph, r.s.h)
	p.Col, p.ColEnd = r.there(tx, r.s.pw, r.s.w)
	if p.Row >= p.RowEnd || p.Col >= p.ColEnd {
		return winograd.Part{}
	}
	return p
}

func (r *winogradRun) resultCode(ty, tx, block int) resultCode {
	s, m := r.s, r.form.M
	return resultCode{min(m, s.oh-ty*m), min(m, s.ow-tx*m), r.channels(block) % winograd.Lanes(r.isa)}
}

// channels is the number of output channels of a block.
func (r *winogradRun) channels(block int) int { return min(r.width, r.s.o-block*r.width) }

// strips are the tiles that are multiplied at once.
func (w *winogradConv) strips(t tileSpan) spans { return t.evenly(w.rows) }

// parts are the tiles of a section that a chunk multiplies: as few as registers hold, or all where a block's weights
// would be read from afar again.
func (r *winogradRun) parts(section tileSpan) spans {
	w := r.winogradConv
	if r.course != byBlocks || 4*w.form.Points()*w.matrix() > partWeights {
		return section.into(1)
	}
	return w.strips(section)
}

// listings tells what the code is.
func (r *winogradRun) listings() (list []expr.Listing) {
	for _, rows := range slices.Sorted(maps.Keys(r.products)) {
		list = append(list, expr.Listing{Name: fmt.Sprintf("products of %d tiles, point by point", rows),
			Assembly: r.products[rows].Listing()})
	}
	for _, of := range [][]*winograd.Transform{slices.Collect(maps.Values(r.operands)),
		slices.Collect(maps.Values(r.backs))} {
		slices.SortFunc(of, func(a, b *winograd.Transform) int { return cmp.Compare(a.Name(), b.Name()) })
		for _, t := range of {
			list = append(list, expr.Listing{Name: t.Name(), Assembly: t.Listing()})
		}
	}
	return list
}
