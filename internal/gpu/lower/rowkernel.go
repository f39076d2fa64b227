package lower

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// rowKernel makes a kernel. units is the number of rows, or of pieces of rows.
type rowKernel struct {
	scalars
	*rows
	units    int
	lanes    int      // threads of a unit
	partner  int      // distance of the threads of a unit in the group
	lane     ir.Value // index of the thread among those of its unit
	thread   ir.Value
	isValid  ir.Value // the unit exists
	row      ir.Value
	piece    ir.Value   // ir.None if rows are not cut, or are joined
	base     []ir.Value // by output and operand: the address of the first element of the row
	numbers  map[int]ir.Value
	uniforms map[int][]ir.Value
	joins    bool // the kernel combines pieces
}

// add adds a launch with a number of units.
func (r *rows) add(p *Program, units int, body func(k *rowKernel)) error {
	params := len(r.metas)
	if r.hasPositions {
		params--
	}
	k := &rowKernel{rows: r, units: units, numbers: map[int]ir.Value{}, uniforms: map[int][]ir.Value{}}
	k.scalars = scalars{Builder: ir.NewBuilder(params+1, groupSize), target: r.target}
	if params+1 > r.target.MaxParams {
		return fmt.Errorf("gpu: a kernel with %d operands is %w", params, ErrUnsupported)
	}
	k.setThread()
	body(k)
	bytes := 0
	for _, a := range k.Shared {
		bytes += a.DType.Size() * a.Length
	}
	switch {
	case k.err != nil:
		return k.err
	case bytes > maxShared:
		return fmt.Errorf("gpu: a kernel with %d bytes of group memory is %w", bytes, ErrUnsupported)
	}
	if err := k.Check(); err != nil {
		return err
	}
	perGroup := groupSize / k.lanes
	l := Launch{Kernel: &k.Kernel, Groups: (units + perGroup - 1) / perGroup}
	for i := range params {
		l.Args = append(l.Args, Arg{Buffer: i})
	}
	l.Args = append(l.Args, Arg{Buffer: Scratch})
	if p.Scratch == 0 { // no kernel of the program uses the last address
		l.Args[params].Buffer = 0
	}
	p.Launches = append(p.Launches, l)
	return nil
}

// setThread finds the row, the piece and the lane of a thread, and the addresses of its row. Threads without a unit
// compute the last one, and store nothing.
func (k *rowKernel) setThread() {
	const u32 = tensor.Uint32
	r, units := k.rows, k.units
	k.joins = r.pieces > 1 && units == r.count
	k.lanes = lanesOf(r.pieceLen, r.vector)
	if k.joins {
		k.lanes = lanesOf(r.pieces, 1)
	}
	perGroup := groupSize / k.lanes
	k.thread = k.Do(ir.Thread, u32)
	slow, fast := k.quotient(k.thread, k.lanes), k.do(lane.And, u32, k.thread, k.Const(u32, uint64(k.lanes-1)))
	unit := slow
	k.lane, k.partner = fast, 1
	if r.columns && r.pieces == 1 {
		unit = k.do(lane.And, u32, k.thread, k.Const(u32, uint64(perGroup-1)))
		k.lane, k.partner = k.quotient(k.thread, perGroup), perGroup
	}
	unit = k.do(lane.Add, u32, k.do(lane.Mul, u32, k.Do(ir.Group, u32), k.Const(u32, uint64(perGroup))), unit)
	k.isValid = k.do(lane.Lt, tensor.Bool, unit, k.Const(u32, uint64(units)))
	unit = k.choose(u32, k.isValid, unit, k.Const(u32, uint64(units-1)))
	k.row, k.piece = unit, ir.None
	if units != r.count {
		k.row = k.quotient(unit, r.pieces)
		k.piece = k.do(lane.Sub, u32, unit, k.do(lane.Mul, u32, k.row, k.Const(u32, uint64(r.pieces))))
	}
	var shape []int
	for _, a := range r.kept {
		shape = append(shape, a.n)
	}
	index := k.split(k.row, shape)
	for i := range k.Params - 1 {
		at := k.DoImm(ir.Param, tensor.Uint64, uint64(i))
		k.base = append(k.base, k.advance(at, k.offset(index, shape, stridesOf(r.kept, i))))
	}
}

func stridesOf(list []axis, i int) (strides []int) {
	for _, a := range list {
		strides = append(strides, a.strides[i])
	}
	return strides
}

// scratchAt returns the address of byte at + size*(first + second*n) of the scratch memory.
func (k *rowKernel) scratchAt(at, size int, first, second ir.Value, n int) ir.Value {
	const u64 = tensor.Uint64
	index := k.do(lane.Convert, u64, first)
	if second != ir.None {
		slow := k.do(lane.Mul, u64, k.do(lane.Convert, u64, second), k.Const(u64, uint64(n)))
		index = k.do(lane.Add, u64, index, slow)
	}
	base := k.plus(k.DoImm(ir.Param, u64, uint64(k.Params-1)), at)
	return k.do(lane.Add, u64, base, k.do(lane.Mul, u64, index, k.Const(u64, uint64(size))))
}

// number returns a number of the row.
func (k *rowKernel) number(n int) ir.Value {
	v, ok := k.numbers[n]
	if !ok { // computed by an earlier launch
		at := k.scratchAt(k.numbersAt+8*n*k.count, 8, k.row, ir.None, 0)
		v = k.loadRun(run{k.program.Numbers[n], 1, 8}, at)[0]
		k.numbers[n] = v
	}
	return v
}

// uniform returns the numbers of an operand with one element for the row.
func (k *rowKernel) uniform(operand int) []ir.Value {
	v, ok := k.uniforms[operand]
	switch i := k.outs + operand; {
	case ok:
	case k.hasPositions && i == len(k.metas)-1: // rows of one element
		v = []ir.Value{k.Const(tensor.Int32, 0)}
	default:
		d := k.metas[i].DType
		v = k.load(access{d, 0, 1, d.ToReal().Size()}, k.base[i])
		k.uniforms[operand] = v
	}
	return v
}

// prepare adds the loads that the code of a loop shares, before the loop.
func (k *rowKernel) prepare(in []expr.Place) {
	for _, p := range in {
		switch {
		case p.Kind == expr.AtNumber:
			k.number(p.N)
		case p.Kind == expr.AtOperand && k.program.Uniform[p.N]:
			k.uniform(p.N)
		}
	}
}

// pass adds the loop of a pass, and combines the folds of the threads of a unit.
func (k *rowKernel) pass(i int) {
	const u32 = tensor.Uint32
	pass := k.program.Passes[i]
	if pass.Code == nil {
		return
	}
	k.prepare(pass.In)
	var acc []ir.Value
	for _, f := range pass.Folds {
		d := pass.Code.Insts[f.V].DType
		neutral := expr.Neutral(f.Op, d)
		acc = append(acc, k.Do(ir.Var, register(d), k.elementBits(d, neutral)))
	}
	first := k.do(lane.Mul, u32, k.lane, k.Const(u32, uint64(k.vector)))
	last := k.Const(u32, uint64(k.n))
	if k.piece != ir.None {
		begin := k.do(lane.Mul, u32, k.piece, k.Const(u32, uint64(k.pieceLen)))
		end := k.do(lane.Add, u32, begin, k.Const(u32, uint64(k.pieceLen)))
		first = k.do(lane.Add, u32, first, begin)
		last = k.choose(u32, k.do(lane.Lt, tensor.Bool, end, last), end, last)
	}
	step := k.lanes * k.vector
	loop := func() {
		at := k.Do(ir.Var, u32, first)
		k.While(func() ir.Value {
			e := k.Do(ir.Get, u32, at)
			k.elements(&pass, e, acc)
			next := k.do(lane.Add, u32, e, k.Const(u32, uint64(step)))
			k.Do(ir.Set, tensor.Invalid, at, next)
			return k.do(lane.Le, tensor.Bool, last, next)
		})
	}
	switch {
	case k.piece != ir.None:
		k.If(k.do(lane.Lt, tensor.Bool, first, last), loop)
	case step >= k.n:
		k.elements(&pass, first, acc)
	default:
		loop()
	}
	k.combine(&pass, acc, i)
}

// elementBits returns an element with the given bits, of any dtype.
func (k *rowKernel) elementBits(d tensor.DType, bits uint64) ir.Value {
	if d == tensor.Bool {
		return k.Const(d, bits&1)
	}
	return k.constant(d, bits)
}

// combine combines the accumulators of the threads of a unit, and keeps the results.
func (k *rowKernel) combine(pass *expr.RowPass, acc []ir.Value, i int) {
	var results []ir.Value
	for n, f := range pass.Folds {
		d := pass.Code.Insts[f.V].DType
		results = append(results, k.tree(f.Op, d, k.Do(ir.Get, register(d), acc[n])))
	}
	if k.piece == ir.None {
		for n, v := range results {
			k.numbers[pass.Into[n]] = v
		}
		return
	}
	k.If(k.isFirst(), func() {
		for n, v := range results {
			at := k.scratchAt(k.partialsAt+8*n*k.count*k.pieces, 8, k.piece, k.row, k.pieces)
			k.storeRun(run{pass.Code.Insts[pass.Folds[n].V].DType, 1, 8}, at, []ir.Value{v})
		}
	})
}

// isFirst reports whether the thread is the first of an existing unit.
func (k *rowKernel) isFirst() ir.Value {
	zero := k.Const(tensor.Uint32, 0)
	return k.do(lane.And, tensor.Bool, k.isValid, k.do(lane.Eq, tensor.Bool, k.lane, zero))
}

// fold combines two values of a fold.
func (k *rowKernel) fold(o expr.Op, d tensor.DType, a, b ir.Value) ir.Value {
	return k.inst(expr.Inst{Op: o, DType: d, A: 0, B: 0, C: expr.None}, d, []ir.Value{a, b})
}

// tree combines the values of the threads of a unit: thread k with thread k+half, as halves of the threads. All threads
// get the result.
func (k *rowKernel) tree(o expr.Op, d tensor.DType, v ir.Value) ir.Value {
	const u32 = tensor.Uint32
	if k.lanes == 1 {
		return v
	}
	r := register(d)
	stored, get := r, func(v ir.Value) ir.Value { return v }
	put := get
	if d == tensor.Bool {
		stored = u32
		put = func(v ir.Value) ir.Value { return k.raw(d, v) }
		get = func(v ir.Value) ir.Value { return k.fromRaw(d, v) }
	}
	array := k.Array(stored, groupSize)
	k.DoImm(ir.StoreShared, tensor.Invalid, array, k.thread, put(v))
	for half := k.lanes / 2; half > 0; half /= 2 {
		k.Do(ir.Barrier, tensor.Invalid)
		k.If(k.do(lane.Lt, tensor.Bool, k.lane, k.Const(u32, uint64(half))), func() {
			other := k.do(lane.Add, u32, k.thread, k.Const(u32, uint64(half*k.partner)))
			a := get(k.DoImm(ir.LoadShared, stored, array, k.thread))
			b := get(k.DoImm(ir.LoadShared, stored, array, other))
			k.DoImm(ir.StoreShared, tensor.Invalid, array, k.thread, put(k.fold(o, d, a, b)))
		})
	}
	k.Do(ir.Barrier, tensor.Invalid)
	first := k.do(lane.Sub, u32, k.thread, k.do(lane.Mul, u32, k.lane, k.Const(u32, uint64(k.partner))))
	return get(k.DoImm(ir.LoadShared, stored, array, first))
}

// joinPieces combines the results of the pieces of a row.
func (k *rowKernel) joinPieces(i int) {
	const u32 = tensor.Uint32
	pass := k.program.Passes[i]
	for n, f := range pass.Folds {
		d := pass.Code.Insts[f.V].DType
		partial := func(piece ir.Value) ir.Value {
			at := k.scratchAt(k.partialsAt+8*n*k.count*k.pieces, 8, piece, k.row, k.pieces)
			return k.loadRun(run{d, 1, 8}, at)[0]
		}
		acc := k.Do(ir.Var, register(d), partial(k.lane))
		if second := k.do(lane.Add, u32, k.lane, k.Const(u32, uint64(k.lanes))); k.lanes < k.pieces { // < 2*k.lanes
			k.If(k.do(lane.Lt, tensor.Bool, second, k.Const(u32, uint64(k.pieces))), func() {
				sum := k.fold(f.Op, d, k.Do(ir.Get, register(d), acc), partial(second))
				k.Do(ir.Set, tensor.Invalid, acc, sum)
			})
		}
		k.numbers[pass.Into[n]] = k.tree(f.Op, d, k.Do(ir.Get, register(d), acc))
	}
	if k.pieces > 1 && len(pass.Folds) > 0 {
		k.If(k.isFirst(), func() {
			for _, n := range pass.Into {
				k.storeNumber(n)
			}
		})
	}
}

func (k *rowKernel) storeNumber(n int) {
	at := k.scratchAt(k.numbersAt+8*n*k.count, 8, k.row, ir.None, 0)
	k.storeRun(run{k.program.Numbers[n], 1, 8}, at, []ir.Value{k.numbers[n]})
}

// after adds the computation once per row.
func (k *rowKernel) after(i int) {
	pass := k.program.Passes[i]
	if pass.After == nil {
		return
	}
	k.prepare(pass.AfterIn)
	values := k.eval(pass.After, func(operand, part int) ir.Value {
		if p := pass.AfterIn[operand]; p.Kind == expr.AtOperand {
			return k.uniform(p.N)[part]
		}
		return k.numbers[pass.AfterIn[operand].N]
	})
	for o, p := range pass.AfterOut {
		if p.Kind == expr.AtNumber {
			k.numbers[p.N] = values[pass.After.Out[o].Re]
		}
	}
	k.If(k.isFirst(), func() {
		for o, p := range pass.AfterOut {
			out := pass.After.Out[o]
			switch {
			case p.Kind == expr.AtOutput:
				list := []ir.Value{values[out.Re]}
				if out.Im != expr.None {
					list = append(list, values[out.Im])
				}
				d := k.metas[p.N].DType
				k.store(access{d, 0, 1, d.ToReal().Size()}, k.base[p.N], list)
			case p.Kind == expr.AtNumber && k.joins:
				k.storeNumber(p.N)
			}
		}
	})
}

// addressOf returns how a thread accesses an output or operand at an index of the row.
func (k *rowKernel) addressOf(i int, index []ir.Value) (access, ir.Value) {
	var shape []int
	for _, a := range k.reduced {
		shape = append(shape, a.n)
	}
	strides := stridesOf(k.reduced, i)
	all, sizes := slices.Clone(strides), slices.Clone(shape)
	for _, a := range k.kept {
		all, sizes = append(all, a.strides[i]), append(sizes, a.n)
	}
	d := k.metas[i].DType
	a := access{d, strides[0], k.vector, alignOf(d, k.align[i], sizes, all, k.vector)}
	return a, k.advance(k.base[i], k.offset(index, shape, strides))
}

// storedRow returns how a thread accesses a stored row at element e.
func (k *rowKernel) storedRow(n int, e ir.Value) (access, ir.Value) {
	d := k.program.Rows[n].DType
	align := 16 | k.vector*d.Size()
	if k.count > 1 {
		align |= k.n * d.Size()
	}
	return access{d, d.Size(), k.vector, max(align&-align, d.ToReal().Size())},
		k.scratchAt(k.scratchRows[n], d.Size(), e, k.row, k.n)
}

// loadElements returns the numbers of each operand of a pass, for the elements of a thread that begin at element e.
func (k *rowKernel) loadElements(in []expr.Place, e ir.Value, index []ir.Value) [][]ir.Value {
	loaded := make([][]ir.Value, len(in))
	for o, p := range in {
		switch {
		case p.Kind == expr.AtRow:
			loaded[o] = k.load(k.storedRow(p.N, e))
		case p.Kind == expr.AtNumber:
			loaded[o] = []ir.Value{k.numbers[p.N]}
		case k.program.Uniform[p.N]:
			loaded[o] = k.uniform(p.N)
		case k.hasPositions && k.outs+p.N == len(k.metas)-1:
			for v := range k.vector {
				position := k.do(lane.Add, tensor.Uint32, e, k.Const(tensor.Uint32, uint64(v)))
				loaded[o] = append(loaded[o], k.bits(tensor.Int32, position))
			}
		default:
			loaded[o] = k.load(k.addressOf(k.outs+p.N, index))
		}
	}
	return loaded
}

// elements computes the elements of a thread that begin at element e of the row.
func (k *rowKernel) elements(pass *expr.RowPass, e ir.Value, acc []ir.Value) {
	var shape []int
	for _, a := range k.reduced {
		shape = append(shape, a.n)
	}
	index := k.split(e, shape)
	loaded := k.loadElements(pass.In, e, index)
	stored := make([][]ir.Value, len(pass.Out))
	for v := range k.vector {
		values := k.eval(pass.Code, func(operand, part int) ir.Value {
			parts := 1
			if pass.Code.In[operand].IsComplex() {
				parts = 2
			}
			return loaded[operand][(v*parts+part)%len(loaded[operand])]
		})
		for o, p := range pass.Out {
			if out := pass.Code.Out[o]; p.Kind != expr.Nowhere {
				if stored[o] = append(stored[o], values[out.Re]); out.Im != expr.None {
					stored[o] = append(stored[o], values[out.Im])
				}
			}
		}
		for n, f := range pass.Folds {
			d := pass.Code.Insts[f.V].DType
			sum := k.fold(f.Op, d, k.Do(ir.Get, register(d), acc[n]), values[f.V])
			k.Do(ir.Set, tensor.Invalid, acc[n], sum)
		}
	}
	if !slices.ContainsFunc(pass.Out, func(p expr.Place) bool { return p.Kind != expr.Nowhere }) {
		return
	}
	k.If(k.isValid, func() {
		for o, p := range pass.Out {
			switch p.Kind {
			case expr.AtOutput:
				a, at := k.addressOf(p.N, index)
				k.store(a, at, stored[o])
			case expr.AtRow:
				a, at := k.storedRow(p.N, e)
				k.store(a, at, stored[o])
			}
		}
	})
}
