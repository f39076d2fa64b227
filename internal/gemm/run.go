package gemm

import (
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/strided"
)

// exec is one Run call: the arguments in the plan's own orientation.
type exec[T Number] struct {
	*Plan[T]
	pa, pb, pc    unsafe.Pointer
	bias          unsafe.Pointer
	packA, packB  PackFunc[T]
	shA, shB      unsafe.Pointer // aligned shared panels
	worker        unsafe.Pointer // aligned worker scratch
	superK, depth int            // current K super-block
	keep          bool           // the first tile of each panel keeps it
	epilogue      func(i0, i1, j0, j1 int)
}

// Run executes one tile of one phase. worker has WorkerScratchLen elements
// and is private to the call; its contents do not matter. Run allocates
// nothing and starts no goroutine.
func (p *Plan[T]) Run(phase, tile int, args *Args[T], worker []T) {
	if p.spec.M == 0 || p.spec.N == 0 {
		return
	}
	x := exec[T]{Plan: p, pa: args.A, pb: args.B, pc: args.C, bias: args.Bias,
		packA: args.PackA, packB: args.PackB}
	if p.swapped {
		x.pa, x.pb = x.pb, x.pa
	}
	if n := p.worker.total; n > 0 {
		x.worker = aligned(worker[:n])
	}
	block, what := p.at(phase)
	x.keep = p.b.kept && what != otherRows
	if p.shares() {
		x.superK = block * p.kd
		x.depth = p.superDepth(block)
		x.shA = aligned(args.Shared[:p.shared])
		x.shB = x.shA
		if p.a.shared {
			x.shB = unsafe.Pointer(at[T](x.shA, roundUp(p.a.lanes, p.a.w)*p.kd))
		}
		if what == packing {
			x.runPack(tile)
			return
		}
	} else {
		x.depth = p.spec.K
	}
	i0, i1, j0, j1 := p.tile(what, tile)
	if x.superK+x.depth == p.spec.K {
		x.epilogue = args.Epilogue
	}
	switch p.path {
	case pathTiled:
		x.runTile(i0, i1, j0, j1)
		return
	case pathSimple:
		x.runSimple(i0, i1, j0, j1)
	default:
		x.runDirect(j0, j1)
	}
	x.final(i0, i1, j0, j1)
}

// final has the caller go on with a part of C.
func (x *exec[T]) final(i0, i1, j0, j1 int) {
	switch {
	case x.epilogue == nil:
	case x.swapped:
		x.epilogue(j0, j1, i0, i1)
	default:
		x.epilogue(i0, i1, j0, j1)
	}
}

// RunAll executes every phase and tile in order on the calling goroutine.
func (p *Plan[T]) RunAll(args *Args[T], worker []T) {
	for ph := range p.Phases() {
		for t := range p.Tiles(ph) {
			p.Run(ph, t, args, worker)
		}
	}
}

// aligned returns the first alignBytes-aligned address in s, which must have
// slack for it.
func aligned[T Number](s []T) unsafe.Pointer {
	ptr := unsafe.Pointer(unsafe.SliceData(s))
	return unsafe.Add(ptr, -uintptr(ptr)&(alignBytes-1))
}

// runPack packs one chunk of a shared operand for the current super-block.
func (x *exec[T]) runPack(tile int) {
	if n := x.a.packTiles(x.depth); tile >= n {
		x.packShared(tile-n, x.b, x.pb, x.packB, x.shB)
		return
	}
	x.packShared(tile, x.a, x.pa, x.packA, x.shA)
}

func (x *exec[T]) packShared(tile int, d side, src unsafe.Pointer, fn PackFunc[T], to unsafe.Pointer) {
	panels, chunk := d.packChunk(x.depth)
	groups := ceilDiv(ceilDiv(d.lanes, d.w), panels)
	l0 := tile % groups * panels * d.w
	l1 := min(l0+panels*d.w, d.lanes)
	k0 := tile / groups * chunk
	k1 := min(k0+chunk, x.depth)
	if chunk == x.depth {
		// Whole panels follow one another, so one call packs the group.
		dst := unsafe.Slice(at[T](to, l0*x.depth), roundUp(l1-l0, d.w)*x.depth)
		pack(dst, d, src, fn, x.superK, x.superK+x.depth, l0, l1)
		return
	}
	for l := l0; l < l1; l += d.w {
		dst := unsafe.Slice(at[T](to, l*x.depth+k0*d.w), d.w*(k1-k0))
		pack(dst, d, src, fn, x.superK+k0, x.superK+k1, l, min(l+d.w, d.lanes))
	}
}

func pack[T Number](dst []T, d side, src unsafe.Pointer, fn PackFunc[T], k0, k1, l0, l1 int) {
	if d.source == Custom {
		fn(dst, k0, k1, l0, l1)
		return
	}
	packPanels(dst, d.w, src, d.ls, d.ks, k0, k1, l0, l1)
}

// feed is where the kernels find the lanes of a side for a block of K: in panels, or where the operand is. Distances
// count elements.
type feed struct {
	base  unsafe.Pointer // of the tile's first lane
	w     int            // lanes of a panel
	panel int            // from one to the next
	lane  int            // from lane to lane of an operand in place
	term  int            // from depth to depth
	place bool
}

// at is where a lane begins, a panel's first one unless the operand is in place.
func (f *feed) at(l int) int {
	if f.place {
		return l * f.lane
	}
	return l/f.w*f.panel + l%f.w
}

// locate finds the block [k0, k1) of lanes [l0, l1), packing it into the worker's buffer when the side is local.
func (x *exec[T]) locate(f *feed, d *side, src, shared, local unsafe.Pointer, fn PackFunc[T], k0, k1, l0, l1 int) {
	f.w, f.term, f.place = d.w, d.w, d.place
	switch {
	case d.place:
		f.base, f.lane, f.term = unsafe.Pointer(at[T](src, l0*d.ls+k0*d.ks)), d.ls, d.ks
	case d.source == Prepacked:
		f.base, f.panel = unsafe.Pointer(at[T](src, l0*x.spec.K+k0*d.w)), d.w*x.spec.K
	case d.shared:
		f.base, f.panel = unsafe.Pointer(at[T](shared, l0*x.depth+(k0-x.superK)*d.w)), d.w*x.depth
	default:
		if !d.kept {
			pack(unsafe.Slice((*T)(local), roundUp(l1-l0, d.w)*(k1-k0)), *d, src, fn, k0, k1, l0, l1)
		}
		f.base, f.panel = local, d.w*(k1-k0)
	}
}

// blockRows is how many rows of A are gone through for each panel of B.
func (p *Plan[T]) blockRows() int { return max(1, blockBytes/(p.a.w*p.kc*p.a.size)) * p.a.w }

// runTile computes C[i0:i1, j0:j1] over the current super-block: K blocks
// outermost, then blocks of A that fit L2, then panels of B that fit L1.
func (x *exec[T]) runTile(i0, i1, j0, j1 int) {
	p, s := x.Plan, &x.spec
	if x.superK == 0 {
		x.gatherBias(i0, i1, j0, j1)
	}
	var args *jit.Args
	if p.set.coded() {
		args = calls.Get().(*jit.Args)
		defer release(args)
	}
	localB := unsafe.Pointer(at[T](x.worker, p.worker.b))
	end := x.superK + x.depth
	t := tileState[T]{exec: x, i0: i0, j0: j0, j1: j1}
	var a, b feed
	for k0 := x.superK; k0 < end; k0 += p.kc {
		k1 := min(k0+p.kc, end)
		x.locate(&a, &p.a, x.pa, x.shA, x.worker, x.packA, k0, k1, i0, i1)
		x.locate(&b, &p.b, x.pb, x.shB, localB, x.packB, k0, k1, j0, j1)
		t.k0, t.kc, t.first, t.last = k0, k1-k0, k0 == 0, k1 == s.K
		if args != nil {
			t.panelsOf(args, &a, &b, i0, i1, j0, j1)
			continue
		}
		for ib := i0; ib < i1; ib += p.block {
			ie := min(ib+p.block, i1)
			for j := j0; j < j1; j += p.b.w {
				cols := min(p.b.w, j1-j)
				bp := unsafe.Pointer(at[T](b.base, b.at(j-j0)))
				for i := ib; i < ie; i += p.a.w {
					t.micro(unsafe.Pointer(at[T](a.base, a.at(i-i0))), bp, i, j, min(p.a.w, ie-i), cols)
				}
				if t.last {
					x.final(ib, ie, j, j+cols)
				}
			}
		}
	}
}

// release gives arguments back, without the operands that they would keep.
func release(args *jit.Args) {
	clear(args.Ptr[:])
	calls.Put(args)
}

// gatherBias copies the tile's part of the bias to contiguous worker scratch,
// where kernels may read whole panels of it.
func (x *exec[T]) gatherBias(i0, i1, j0, j1 int) {
	to, l0, l1 := x.worker, 0, 0
	switch x.spec.Bias {
	case BiasRows:
		to, l0, l1 = unsafe.Pointer(at[T](x.worker, x.Plan.worker.rowBias)), i0, i1
	case BiasCols:
		to, l0, l1 = unsafe.Pointer(at[T](x.worker, x.Plan.worker.colBias)), j0, j1
	}
	if l1 > l0 {
		size := int(unsafe.Sizeof(*(*T)(nil)))
		strided.Move(size).Row(to, unsafe.Pointer(at[T](x.bias, l0*x.spec.BiasStride)), size, x.spec.BiasStride*size, l1-l0)
	}
}

// tileState is the part of a tile's state that is fixed within a K block.
type tileState[T Number] struct {
	*exec[T]
	i0, j0, j1, k0, kc int
	first, last        bool     // block of K
	record             *[]call  // has what is to be called, which then is not
	stacks             [4]stack // of so many rows and vectors
	stacked            int
	rows, vectors      int
}

// temporary is room for a tile whose columns are not side by side in C; biasRows and biasCols are the tile's part of
// the bias.
func (t *tileState[T]) temporary() unsafe.Pointer {
	return unsafe.Pointer(at[T](t.exec.worker, t.Plan.worker.tile))
}

func (t *tileState[T]) biasRows() unsafe.Pointer {
	return unsafe.Pointer(at[T](t.exec.worker, t.Plan.worker.rowBias))
}

func (t *tileState[T]) biasCols() unsafe.Pointer {
	return unsafe.Pointer(at[T](t.exec.worker, t.Plan.worker.colBias))
}

// micro computes one register tile at (i, j) of C, directly in C when the
// kernel can address it and otherwise through the worker's temporary tile.
func (t *tileState[T]) micro(ap, bp unsafe.Pointer, i, j, rows, cols int) {
	p, s := t.Plan, &t.spec
	size := int(unsafe.Sizeof(*(*T)(nil)))
	fn := p.set.micro
	astep := p.a.w * size
	c := unsafe.Pointer(at[T](t.pc, i*s.CRowStride+j*s.CColStride))
	clash := t.first && s.Accumulate && s.Bias == BiasCols // both need init
	if s.CColStride != 1 || clash {
		tmp := t.temporary()
		fn(t.kc, ap, astep, bp, tmp, p.set.nr*size, unsafe.Pointer(&zeroRow), 0, nil, rows, cols)
		t.merge(tmp, c, i, j, rows, cols)
		return
	}
	ldc := s.CRowStride * size
	init, ldinit := c, ldc
	var rowBias unsafe.Pointer
	if t.first {
		if !s.Accumulate {
			init, ldinit = unsafe.Pointer(&zeroRow), 0
		}
		switch s.Bias {
		case BiasCols:
			init = unsafe.Pointer(at[T](t.biasCols(), j-t.j0))
		case BiasRows:
			rowBias = unsafe.Pointer(at[T](t.biasRows(), i-t.i0))
		}
	}
	fn(t.kc, ap, astep, bp, c, ldc, init, ldinit, rowBias, rows, cols)
}

// merge adds a temporary register tile to C, with the bias in the first block.
func (t *tileState[T]) merge(tmp, c unsafe.Pointer, i, j, rows, cols int) {
	p, s := t.Plan, &t.spec
	keep := !t.first || s.Accumulate
	for r := range rows {
		for q := range cols {
			v := *at[T](tmp, r*p.set.nr+q)
			if t.first {
				switch s.Bias {
				case BiasRows:
					v += *at[T](t.biasRows(), i+r-t.i0)
				case BiasCols:
					v += *at[T](t.biasCols(), j+q-t.j0)
				}
			}
			d := at[T](c, r*s.CRowStride+q*s.CColStride)
			if keep {
				v += *d
			}
			*d = v
		}
	}
}
