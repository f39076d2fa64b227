package conv

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/jit/winograd"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// winogradRun is the code of a winogradConv and where it finds things. Products are in a worker's own memory. So are
// points where weights are near; else sections follow one another, and all workers share their points.
type winogradRun struct {
	*winogradConv
	sections []tileSpan
	own      bool // points are in a worker's memory
	packed   bool
	weight   int // bytes of scratch memory before the points: of a weight that was not packed

	operands map[winograd.Part]*winograd.Transform
	results  map[resultCode]*winograd.Transform
	products map[int]*jit.Func // by rows

	// How sections and parts are cut, which runs look up rather than make.
	partsOf, stripsOf map[tileSpan][]tileSpan

	point  int // bytes from a point to the next
	result int // the same of products
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
	// transformGrain are elements of points that are worth a chunk, and callMACs the multiplications of a call, which
	// must not last 50 us.
	transformGrain = 1 << 17
	callMACs       = 1 << 20
	// partWeights are the bytes of a block's weights up to which chunks read them anew for as many tiles as registers
	// hold, since they stay in the second cache.
	partWeights = 768 << 10
	// ahead is how far before they are needed weights are asked for, in bytes.
	ahead = 8 << 10
)

func (w *winogradConv) kernel() (*graph.Kernel, error) {
	r := &winogradRun{winogradConv: w, sections: w.sections(), own: w.near(),
		operands: map[winograd.Part]*winograd.Transform{}, results: map[resultCode]*winograd.Transform{},
		products: map[int]*jit.Func{}, partsOf: map[tileSpan][]tileSpan{}, stripsOf: map[tileSpan][]tileSpan{}}
	r.tail = newCodeTail(w.s.tail, w.s.o, winograd.Tails)
	var err error
	if r.packed, err = w.inForm(); err != nil {
		return nil, err
	}
	if !r.packed {
		r.weight = kit.AlignUp(4 * w.transformed())
	}
	section, part := 0, 0 // the most tiles
	for _, s := range r.sections {
		section = max(section, s.n)
		r.partsOf[s] = w.parts(s)
		for _, p := range r.partsOf[s] {
			part = max(part, p.n)
			r.stripsOf[p] = w.strips(p)
		}
	}
	r.point, r.result = section*w.room*4+pointPad, part*w.width*4+pointPad
	if err := r.compile(); err != nil {
		return nil, err
	}
	k := &graph.Kernel{Scratch: r.weight, Worker: kit.AlignUp(w.form.Points() * r.result)}
	k.Code = r.listings
	if !r.packed {
		k.Phases = append(k.Phases, r.packs())
	}
	if r.own {
		k.Worker += w.form.Points() * r.point
		k.Phases = append(k.Phases, r.whole())
		return k, nil
	}
	k.Scratch += w.form.Points() * r.point
	for _, s := range r.sections {
		k.Phases = append(k.Phases, r.transforms(s), r.multiplies(s))
	}
	return k, nil
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
	for _, section := range r.sections {
		for _, p := range r.partsOf[section] {
			for _, rows := range r.stripsOf[p] {
				if err := compiled(r.products, rows.n, func() (*jit.Func, error) { return r.product(rows.n) }); err != nil {
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

// there tells which rows or columns of tile i are in the image.
func (r *winogradRun) there(i, pad, size int) (first, end int) {
	at := i*r.form.M - pad
	return max(0, -at), min(r.form.N(), size-at)
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
		if err := compiled(r.results, c, func() (*winograd.Transform, error) {
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
	spec := &tile.Spec{Size: 4, Rows: rows, Vectors: r.width / winograd.Lanes(r.isa), Near: ahead,
		Runs:  []tile.Run{{InStep: 4, VecStep: int32(4 * r.width), Terms: r.s.c}},
		Tiles: tile.Loop{In: tile.Dynamic, Vec: tile.Dynamic, Out: tile.Dynamic}}
	for i := range rows {
		spec.In = append(spec.In, int32(i*r.room*4))
		spec.Out = append(spec.Out, int32(i*r.width*4))
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
func (w *winogradConv) strips(t tileSpan) []tileSpan { return t.evenly(w.rows) }

// parts are the tiles of a section that a chunk multiplies: as few as registers hold, or all where a block's weights
// would be read from afar again.
func (w *winogradConv) parts(section tileSpan) []tileSpan {
	if w.near() || 4*w.form.Points()*w.matrix() > partWeights {
		return []tileSpan{section}
	}
	return w.strips(section)
}

// packs brings the weight to the points.
func (r *winogradRun) packs() graph.Phase {
	return graph.Phase{Chunks: r.blocks, Run: func(m *graph.Mem, block int) error {
		src := r.s.call.Meta(1)
		r.fill(kit.SliceOf[float32](m.Scratch, 0, r.transformed()), kit.ElementsOf[float32](m.Ptrs[2], src.Extent()),
			src.Strides, block)
		return nil
	}}
}

// transforms brings the tiles of a section to the points.
func (r *winogradRun) transforms(section tileSpan) graph.Phase {
	grain := max(1, transformGrain/(r.form.Points()*r.room))
	chunks := kit.DivUp(section.n, grain)
	return graph.Phase{Chunks: chunks, Run: func(m *graph.Mem, chunk int) error {
		a := r.args.Of(m)
		defer a.release()
		first := chunk * section.n / chunks
		return r.alike(tileSpan{section.first + first, (chunk+1)*section.n/chunks - first}, func(t tileRun) error {
			return r.transform(m, &a.transform, t, t.first-section.first)
		})
	}}
}

// tileRun is neighbours in a row of tiles of an image, of which the same parts are there.
type tileRun struct {
	tileSpan
	img, ty, tx int
}

// alike visits the tiles of a span run by run.
func (r *winogradRun) alike(t tileSpan, visit func(tileRun) error) error {
	for t.n > 0 {
		row := t.first / r.across
		run := tileRun{tileSpan{t.first, 1}, row / r.down, row % r.down, t.first % r.across}
		is, gives := r.part(run.ty, run.tx), r.resultCode(run.ty, run.tx, 0)
		for run.n < t.n && run.tx+run.n < r.across && r.part(run.ty, run.tx+run.n) == is &&
			r.resultCode(run.ty, run.tx+run.n, 0) == gives {
			run.n++
		}
		if err := visit(run); err != nil {
			return err
		}
		t.first += run.n
		t.n -= run.n
	}
	return nil
}

// transform brings alike tiles to the points, as those from number at on of their section.
func (r *winogradRun) transform(m *graph.Mem, a *jit.Args, t tileRun, at int) error {
	s, p := r.s, r.part(t.ty, t.tx)
	x := t.img * s.xs[0]
	if p.RowEnd > 0 {
		x += (t.ty*r.form.M-s.ph+p.Row)*s.xs[2] + (t.tx*r.form.M-s.pw+p.Col)*s.xs[3]
	}
	from := r.pixels(m.Ptrs[1], x, &s.xs)
	to := winograd.Plane{Ptr: unsafe.Add(r.points(m), 4*at*r.room), Row: r.form.N() * r.point, Col: r.point,
		Tile: 4 * r.room}
	return r.operands[p].Run(a, to, from, nil, s.c, t.n)
}

// pixels is where tiles of an image lie, the first at an element.
func (r *winogradRun) pixels(p unsafe.Pointer, at int, strides *[4]int) winograd.Plane {
	return winograd.Plane{Ptr: unsafe.Add(p, 4*at), Row: 4 * strides[2], Col: 4 * strides[3],
		Tile: 4 * r.form.M * strides[3]}
}

// points is where the points of a section are.
func (r *winogradRun) points(m *graph.Mem) unsafe.Pointer {
	if r.own {
		return unsafe.Pointer(unsafe.SliceData(m.Worker[kit.AlignUp(r.form.Points()*r.result):]))
	}
	return unsafe.Pointer(unsafe.SliceData(m.Scratch[r.weight:]))
}

// weights is where the weights at the points are.
func (r *winogradRun) weights(m *graph.Mem) unsafe.Pointer {
	if r.packed {
		return m.Ptrs[2]
	}
	return unsafe.Pointer(unsafe.SliceData(m.Scratch))
}

// multiplies computes the results of a section: each chunk those of some of its tiles for a block of output channels.
// Whoever has neighbouring chunks reads the same weights where these are more than the points, else the same points.
func (r *winogradRun) multiplies(section tileSpan) graph.Phase {
	parts := r.partsOf[section]
	byBlock := r.transformed() > r.form.Points()*r.room*section.n
	return graph.Phase{Chunks: len(parts) * r.blocks, Run: func(m *graph.Mem, chunk int) error {
		a := r.args.Of(m)
		defer a.release()
		r.tail.enter(&a.transform, &a.tail, m)
		part, block := chunk/r.blocks, chunk%r.blocks
		if byBlock {
			part, block = chunk%len(parts), chunk/len(parts)
		}
		return r.block(m, a, section, parts[part], block)
	}}
}

// whole computes everything, section by section.
func (r *winogradRun) whole() graph.Phase {
	return graph.Phase{Chunks: len(r.sections), Run: func(m *graph.Mem, chunk int) error {
		a := r.args.Of(m)
		defer a.release()
		section := r.sections[chunk]
		if err := r.alike(section, func(t tileRun) error {
			return r.transform(m, &a.transform, t, t.first-section.first)
		}); err != nil {
			return err
		}
		r.tail.enter(&a.transform, &a.tail, m)
		for _, part := range r.partsOf[section] {
			for block := range r.blocks {
				if err := r.block(m, a, section, part, block); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// block computes the results of a part of a section for a block of output channels.
func (r *winogradRun) block(m *graph.Mem, a *winogradArgs, section, part tileSpan, block int) error {
	if err := r.multiply(m, &a.product, part, part.first-section.first, block); err != nil {
		return err
	}
	return r.alike(part, func(t tileRun) error { return r.finish(m, a, t, t.first-part.first, block) })
}

// multiply multiplies tiles, those from number at on of their section, with a block of weights. Points go around
// outside, so that strips of tiles find a point's weights near.
func (r *winogradRun) multiply(m *graph.Mem, a *jit.Args, part tileSpan, at, block int) error {
	n := r.form.Points()
	once := max(1, callMACs/(r.rows*r.matrix()))
	a.Ptr[tile.In], a.Ptr[tile.Vec] = r.points(m), unsafe.Add(r.weights(m), 4*block*n*r.matrix())
	a.Ptr[tile.Out] = unsafe.Pointer(unsafe.SliceData(m.Worker))
	a.Step[tile.InTile], a.Step[tile.VecTile], a.Step[tile.OutTile] = r.point, 4*r.matrix(), r.result
	strips := r.stripsOf[part]
	for p := 0; p < n; p += once {
		a.Rows = min(once, n-p)
		a.Row[tile.Vec] = 4 * p * r.matrix()
		for _, s := range strips {
			a.Row[tile.In] = p*r.point + 4*(s.first-part.first+at)*r.room
			a.Row[tile.Out] = p*r.result + 4*(s.first-part.first)*r.width
			if err := r.products[s.n].Call(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish brings the products of alike tiles, those from number at on of the chunk, back to pixels, and does what follows.
func (r *winogradRun) finish(m *graph.Mem, a *winogradArgs, t tileRun, at, block int) error {
	s, first := r.s, block*r.width
	y := t.img*s.os[0] + t.ty*r.form.M*s.os[2] + t.tx*r.form.M*s.os[3] + first
	to := r.pixels(m.Ptrs[0], y, &s.os)
	from := winograd.Plane{Ptr: unsafe.Add(unsafe.Pointer(unsafe.SliceData(m.Worker)), 4*at*r.width),
		Row: r.form.N() * r.result, Col: r.result, Tile: 4 * r.width}
	var bias unsafe.Pointer
	if s.hasBias {
		bias = unsafe.Add(s.biasAt(m), 4*first)
	}
	code := r.resultCode(t.ty, t.tx, block)
	r.tail.at(&a.transform, 4*y, 4*first)
	if err := r.results[code].Run(&a.transform, to, from, bias, r.channels(block), t.n); err != nil {
		return err
	}
	if r.tail.tail != nil {
		for row := range code.rows {
			r.tail.tail.Do(&a.tail, y+row*s.os[2], (t.n-1)*r.form.M+code.cols, s.os[3], r.channels(block), 1)
		}
	}
	return nil
}

// listings tells what the code is.
func (r *winogradRun) listings() (list []expr.Listing) {
	for _, rows := range slices.Sorted(maps.Keys(r.products)) {
		list = append(list, expr.Listing{Name: fmt.Sprintf("products of %d tiles, point by point", rows),
			Assembly: r.products[rows].Listing()})
	}
	for _, of := range [][]*winograd.Transform{slices.Collect(maps.Values(r.operands)),
		slices.Collect(maps.Values(r.results))} {
		slices.SortFunc(of, func(a, b *winograd.Transform) int { return cmp.Compare(a.Name(), b.Name()) })
		for _, t := range of {
			list = append(list, expr.Listing{Name: t.Name(), Assembly: t.Listing()})
		}
	}
	return list
}
