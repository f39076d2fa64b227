package lower

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Long rows are cut into pieces if there are few of them: a group computes a piece of a row.
const (
	minCutRow  = 1 << 14 // elements of a row
	maxCutRows = 64      // number of rows
	minPiece   = 1 << 12 // elements of a piece
	maxPieces  = 256     // number of pieces of a row
)

// maxShared is the number of bytes of memory that a group has on every device.
const maxShared = 16 << 10

// Rows returns the program of an expression with folds, as rowprog.New describes it, whose outputs and operands have
// the given layouts. The buffers are outputs, then operands. Passes over a row are those of expr.RowProgram.
//
// One group computes one row or, if rows are short, several. If rows are cut, each pass has two launches: one folds
// pieces, the other combines the pieces of each row, and computes the numbers of the row. Each thread folds the
// elements at vector*(thread + n*threads), in order. The results of threads, then those of pieces, are combined as a balanced
// tree. The tree depends on the shape and the expression only.
func Rows(c *expr.Code, outs, ins []tensor.Meta, mask []bool, align []int, t Target) (*Program, error) {
	if _, err := expanded(c, t); err != nil {
		return nil, err
	}
	r := &rows{target: t, outs: len(outs), metas: append(slices.Clone(outs), ins...), align: align}
	c, r.hasPositions = c.Positioned()
	if err := r.setAxes(mask); err != nil {
		return nil, err
	}
	if r.count == 0 {
		return new(Program), nil
	}
	uniform, whole := make([]bool, len(c.In)), make([]bool, len(outs))
	for i := range r.metas {
		varies := slices.ContainsFunc(r.reduced, func(a axis) bool { return a.strides[i] != 0 })
		if i < len(outs) {
			whole[i] = varies
		} else {
			uniform[i-len(outs)] = !varies
		}
	}
	var err error
	if r.program, err = c.RowProgram(uniform, whole); err != nil {
		return nil, fmt.Errorf("gpu: %w: %w", ErrUnsupported, err)
	}
	if r.program.Scans() || r.n == 0 {
		return nil, fmt.Errorf("gpu: a scan, or an empty row, is %w", ErrUnsupported)
	}
	if err := r.expandPasses(); err != nil {
		return nil, err
	}
	r.divide(c)
	p := &Program{Scratch: r.layOutScratch()}
	if r.pieces == 1 {
		return p, r.add(p, r.count, func(k *rowKernel) {
			for i := range r.program.Passes {
				k.pass(i)
				k.after(i)
			}
		})
	}
	for i, pass := range r.program.Passes {
		if pass.Code != nil {
			if err := r.add(p, r.count*r.pieces, func(k *rowKernel) { k.pass(i) }); err != nil {
				return nil, err
			}
		}
		if len(pass.Folds) > 0 || pass.After != nil {
			if err := r.add(p, r.count, func(k *rowKernel) {
				k.joinPieces(i)
				k.after(i)
			}); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// axis is a dimension, or several merged ones.
type axis struct {
	n       int
	strides []int // by output and operand, in bytes
}

// rows is a row program for fixed layouts.
type rows struct {
	target       Target
	program      *expr.RowProgram
	outs         int
	metas        []tensor.Meta // outputs, operands, and positions
	align        []int
	hasPositions bool
	kept         []axis // the fastest first
	reduced      []axis // in row-major order, the last dimension first
	n, count     int    // elements of a row, number of rows
	vector       int    // consecutive elements that a thread computes
	pieces       int
	pieceLen     int
	scratchRows  []int // by stored row: the offset in scratch memory
	partialsAt   int   // results of pieces, by fold, row and piece, 8 bytes each
	numbersAt    int   // numbers, by number and row
	columns      bool  // adjacent threads compute adjacent rows
}

// setAxes merges dimensions.
func (r *rows) setAxes(mask []bool) error {
	shape := make([]int, len(mask))
	r.n, r.count = 1, 1
	positions := tensor.Meta{DType: tensor.Int32, Shape: shape, Strides: make([]int, len(mask))}
	if r.hasPositions {
		r.metas = append(r.metas, positions)
	}
	for d := len(mask) - 1; d >= 0; d-- {
		shape[d] = 1
		for i, m := range r.metas {
			if n := m.Shape[d]; n != 1 && (i < len(r.metas)-1 || !r.hasPositions) {
				shape[d] = n
			}
		}
		if mask[d] {
			positions.Strides[d] = r.n
			r.n *= shape[d]
		} else {
			r.count *= shape[d]
		}
	}
	if max(r.n, 1)*max(r.count, 1) >= 1<<31 {
		return fmt.Errorf("gpu: a fold over %d elements is %w", r.n*r.count, ErrUnsupported)
	}
	for d := len(mask) - 1; d >= 0; d-- {
		if shape[d] == 1 {
			continue
		}
		a := axis{n: shape[d]}
		for i, m := range r.metas {
			s := m.Strides[d] * m.DType.Size()
			if m.Shape[d] == 1 {
				s = 0
			}
			if a.strides = append(a.strides, s); s < 0 || s*shape[d] >= 1<<31 {
				return fmt.Errorf("gpu: operand %d with stride %d is %w", i, s, ErrUnsupported)
			}
		}
		if mask[d] {
			r.reduced = merge(r.reduced, a)
		} else {
			r.kept = append(r.kept, a)
		}
	}
	lead := min(r.outs, len(r.metas)-1)
	slices.SortStableFunc(r.kept, func(a, b axis) int { return a.strides[lead] - b.strides[lead] })
	kept := r.kept
	r.kept = nil
	for _, a := range kept {
		r.kept = merge(r.kept, a)
	}
	none := axis{1, make([]int, len(r.metas))}
	if len(r.kept) == 0 {
		r.kept = append(r.kept, none)
	}
	if len(r.reduced) == 0 {
		r.reduced = append(r.reduced, none)
	}
	r.columns = r.kept[0].strides[lead] != 0 && r.kept[0].strides[lead] < r.reduced[0].strides[lead]
	for i, m := range r.metas {
		if span := 1 + m.Extent()*m.DType.Size(); span >= 1<<31 {
			return fmt.Errorf("gpu: a fold of operand %d over %d bytes is %w", i, span, ErrUnsupported)
		}
	}
	r.vector = 1
	for d := len(mask) - 1; d >= 0; d-- {
		if mask[d] && shape[d] != 1 {
			r.vector = min(4, shape[d]&-shape[d])
			break
		}
	}
	return nil
}

// merge appends an axis, or merges it with the last axis if all operands have a common stride along both.
func merge(list []axis, a axis) []axis {
	if k := len(list) - 1; k >= 0 {
		same := true
		for i, s := range a.strides {
			same = same && s == list[k].n*list[k].strides[i]
		}
		if same {
			list[k].n *= a.n
			return list
		}
	}
	return append(list, a)
}

// expandPasses replaces functions. Folds are values of the last outputs of a pass.
func (r *rows) expandPasses() error {
	for i := range r.program.Passes {
		pass := &r.program.Passes[i]
		for _, c := range []**expr.Code{&pass.Code, &pass.After} {
			if *c == nil {
				continue
			}
			code, err := expand.Functions(*c, expand.Target{})
			if err != nil {
				return fmt.Errorf("gpu: %w: %w", ErrUnsupported, err)
			}
			*c = code
		}
		for f := range pass.Folds {
			pass.Folds[f].V = pass.Code.Out[len(pass.Code.Out)-len(pass.Folds)+f].Re
		}
	}
	return nil
}

// divide decides the elements of a thread and the pieces of a row.
func (r *rows) divide(c *expr.Code) {
	if r.vector*len(c.Insts) > maxInstructions {
		r.vector = 1
	}
	r.pieces, r.pieceLen = 1, r.n
	if r.n >= minCutRow && r.count <= maxCutRows {
		block := groupSize * r.vector
		r.pieceLen = max(minPiece, (r.n+maxPieces-1)/maxPieces)
		r.pieceLen = (r.pieceLen + block - 1) / block * block
		r.pieces = (r.n + r.pieceLen - 1) / r.pieceLen
	}
}

// layOutScratch places stored rows, results of pieces and numbers, and returns the number of bytes.
func (r *rows) layOutScratch() (bytes int) {
	for _, row := range r.program.Rows {
		r.scratchRows = append(r.scratchRows, bytes)
		bytes += (r.n*r.count*row.DType.Size() + 15) &^ 15
	}
	if r.pieces > 1 {
		folds := 0
		for _, pass := range r.program.Passes {
			folds = max(folds, len(pass.Folds))
		}
		r.partialsAt = bytes
		r.numbersAt = r.partialsAt + 8*folds*r.count*r.pieces
		bytes = r.numbersAt + 8*len(r.program.Numbers)*r.count
	}
	return bytes
}

// lanesOf returns the number of threads that fold n elements: a power of 2.
func lanesOf(n, vector int) int {
	return min(groupSize, 1<<(bits.Len(uint(max(1, n/vector)))-1))
}

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
	const u32 = tensor.Uint32
	params := len(r.metas)
	if r.hasPositions {
		params--
	}
	k := &rowKernel{rows: r, units: units, numbers: map[int]ir.Value{}, uniforms: map[int][]ir.Value{}}
	k.scalars = scalars{Builder: ir.NewBuilder(params+1, groupSize), target: r.target}
	if params+1 > r.target.MaxParams {
		return fmt.Errorf("gpu: a kernel with %d operands is %w", params, ErrUnsupported)
	}
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
	for i := range r.metas[:params] {
		at := k.DoImm(ir.Param, tensor.Uint64, uint64(i))
		k.base = append(k.base, k.advance(at, k.offset(index, shape, stridesOf(r.kept, i))))
	}
	body(k)
	bytes := 0
	for _, a := range k.Shared {
		bytes += a.D.Size() * a.N
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

// elements computes the elements of a thread that begin at element e of the row.
func (k *rowKernel) elements(pass *expr.RowPass, e ir.Value, acc []ir.Value) {
	var shape []int
	for _, a := range k.reduced {
		shape = append(shape, a.n)
	}
	index := k.split(e, shape)
	addressOf := func(i int) (access, ir.Value) {
		strides := stridesOf(k.reduced, i)
		all, sizes := strides, shape
		for _, a := range k.kept {
			all, sizes = append(all[:len(all):len(all)], a.strides[i]), append(sizes[:len(sizes):len(sizes)], a.n)
		}
		d := k.metas[i].DType
		a := access{d, strides[0], k.vector, alignOf(d, k.align[i], sizes, all, k.vector)}
		return a, k.advance(k.base[i], k.offset(index, shape, strides))
	}
	row := func(n int) (access, ir.Value) {
		d := k.program.Rows[n].DType
		align := 16
		if k.count > 1 {
			align |= k.n * d.Size()
		}
		align |= k.vector * d.Size()
		return access{d, d.Size(), k.vector, max(align&-align, d.ToReal().Size())},
			k.scratchAt(k.scratchRows[n], d.Size(), e, k.row, k.n)
	}
	loaded := make([][]ir.Value, len(pass.In))
	for o, p := range pass.In {
		switch {
		case p.Kind == expr.AtRow:
			loaded[o] = k.load(row(p.N))
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
			loaded[o] = k.load(addressOf(k.outs + p.N))
		}
	}
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
				a, at := addressOf(p.N)
				k.store(a, at, stored[o])
			case expr.AtRow:
				a, at := row(p.N)
				k.store(a, at, stored[o])
			}
		}
	})
}
