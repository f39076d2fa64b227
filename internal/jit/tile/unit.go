package tile

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/jit/asm"
)

// What the processor's matrix unit multiplies: so many rows, columns and terms of four bytes, at most.
const (
	// UnitRows are those of half of a tile of the unit.
	UnitRows = 16
	// UnitTerms are those of a chunk, of four bytes each, at most.
	UnitTerms = 16
	unitTiles = 8
	// UnitVectors are those of a tile of the unit, at most.
	UnitVectors = 2
	// UnitRoom is the memory that sums of a tile of the unit take.
	UnitRoom = 2 * UnitRows * UnitVectors * lineBytes
	// UnitCallFours bounds a call of the unit, by products of four bytes, to 25 us at a third of its rate.
	UnitCallFours = 5 << 20
	// UnitStripFours are those that a call is worth: to begin one takes 0.1 us, in which the unit multiplies 1<<16.
	UnitStripFours = 1 << 20
	// UnitGrain is how many times the work of vectors a chunk has.
	UnitGrain = 4
	// unitPass is how many registers are for sums that the unit made.
	unitPass = 28
)

// unitCut is how a tile's rows and terms are cut for the matrix unit.
type unitCut struct {
	rows          int   // of a part
	first         []int // the row at which each part begins
	step, vecStep int   // from a row to the next, and from a line of the vector operand to the next
	outStep       int   // from a row of the result to the next; 0 where rows of a part are not even
	terms, rest   int   // of a chunk, and of the last one of a run, if that is shorter
}

// unit cuts a tile whose spec was checked otherwise.
func (s *Spec) unit() (u unitCut, err error) {
	segments := u.segments(s.In)
	most, least := 0, s.Rows
	for _, n := range segments {
		parts := (n + UnitRows - 1) / UnitRows
		most, least = max(most, (n+parts-1)/parts), min(least, n)
	}
	u.rows = most
	at := 0
	for _, n := range segments {
		for i := 0; i < n; i += most { // the last part may have rows of the one before
			u.first = append(u.first, at+min(i, n-most))
		}
		at += n
	}
	u.even(s.Out)
	if err = u.chunks(s); err != nil {
		return u, err
	}
	if most > least || len(u.first) > 2 {
		return u, fmt.Errorf("tile: the matrix unit has no place for %d parts of %v rows", len(u.first), segments)
	}
	return u, nil
}

// segments finds rows that are as far from one another as the first two.
func (u *unitCut) segments(in []int) (list []int) {
	if len(in) > 1 {
		u.step = in[1] - in[0]
	}
	for i := range in {
		if i == 0 || in[i]-in[i-1] != u.step {
			list = append(list, 0)
		}
		list[len(list)-1]++
	}
	return list
}

// even finds how far rows of a part are from one another in the result.
func (u *unitCut) even(out []int) {
	for i, f := range u.first {
		for k := f + 1; k < f+u.rows; k++ {
			step := out[k] - out[k-1]
			if i == 0 && k == f+1 {
				u.outStep = step
			}
			if step != u.outStep {
				u.outStep = 0
				return
			}
		}
	}
	if u.rows == 1 {
		u.outStep = lineBytes // of a single row any will do
	}
}

// chunks cuts the terms of all runs alike: into as few chunks as can be, of one size if there is one that they all are
// multiples of.
func (u *unitCut) chunks(s *Spec) error {
	fewest := 0
	for _, r := range s.Runs {
		fewest += (r.Terms + UnitTerms - 1) / UnitTerms
	}
	u.vecStep = s.Runs[0].VecStep
	for u.terms = UnitTerms; u.terms > 0; u.terms-- {
		n := 0
		for _, r := range s.Runs {
			if r.Terms%u.terms > 0 {
				n = fewest + 1
			}
			n += r.Terms / u.terms
		}
		if n == fewest {
			break
		}
	}
	if u.terms == 0 {
		u.terms = UnitTerms
	}
	for _, r := range s.Runs {
		rest := r.Terms % u.terms
		if r.VecStep != u.vecStep || r.InStep != s.Size || rest > 0 && u.rest > 0 && rest != u.rest {
			return fmt.Errorf("tile: the matrix unit has no place for the terms of %+v", r)
		}
		u.rest = max(u.rest, rest)
	}
	return nil
}

// checkUnit says what a spec has that the matrix unit has not.
func (s *Spec) checkUnit() error {
	all := func(r Run) bool { return r.Terms != Dynamic && (r.Rows == 0 || r.Rows == uint32(1<<s.Rows-1)) }
	lines := func(t Tail) bool { return t.Op == AddRows || t.Op == MulRows }
	switch {
	case !s.Bytes || s.In == nil || s.Out == nil || s.Start == FromRows || s.Masked || s.Keep != 0 || len(s.Fetch) > 0:
		return fmt.Errorf("tile: the matrix unit is for bytes at places that are told")
	case s.Vectors > UnitVectors || s.Rows > 2*UnitRows:
		return fmt.Errorf("tile: %d rows of %d vectors for the matrix unit", s.Rows, s.Vectors)
	case slices.ContainsFunc(s.Tail, lines):
		return fmt.Errorf("tile: tails by rows behind the matrix unit")
	}
	for _, r := range s.Runs {
		if !all(r) {
			return fmt.Errorf("tile: the matrix unit has no place for the rows of %+v", r)
		}
	}
	_, err := s.unit()
	return err
}

// Registers that hold how far lines are from one another, while terms are added.
const (
	unitStep    = stride
	unitVecStep = stride3
	room        = vec // memory for sums, once terms are added
)

// unitGen emits what the matrix unit does of a tile.
type unitGen struct {
	*gen
	cut                unitCut
	a, b, aRest, bRest []asm.Tile // operands of chunks, and of those that are shorter
}

func (g *gen) unitGen() *unitGen {
	u, _ := g.s.unit()
	x := &unitGen{gen: g, cut: u}
	sums := len(u.first) * g.s.Vectors
	list := make([]asm.Tile, 0, unitTiles)
	for i := sums; i < unitTiles; i++ {
		list = append(list, asm.Tile(i))
	}
	share := func(list []asm.Tile) (a, b []asm.Tile) {
		n := 1
		if g.s.Vectors < len(list) {
			n = min(len(list)-g.s.Vectors, len(u.first))
		}
		return list[:n], list[n:]
	}
	if u.rest > 0 {
		x.aRest, x.bRest = share(list[len(list)/2:])
		list = list[:len(list)/2]
	}
	x.a, x.b = share(list)
	return x
}

// sumTile is the register of the sums of a part and a vector.
func (x *unitGen) sumTile(part, v int) asm.Tile { return asm.Tile(part*x.s.Vectors + v) }

// configure tells the unit how large tiles are.
func (x *unitGen) configure() {
	c := make([]byte, lineBytes)
	c[0] = 1 // the only palette that there is
	of := func(list []asm.Tile, rows, bytes int) {
		for _, t := range list {
			binary.LittleEndian.PutUint16(c[16+2*t:], uint16(bytes))
			c[48+t] = byte(rows)
		}
	}
	for part := range x.cut.first {
		for v := range x.s.Vectors {
			of([]asm.Tile{x.sumTile(part, v)}, x.cut.rows, lineBytes)
		}
	}
	of(x.a, x.cut.rows, x.cut.terms*x.s.Size)
	of(x.b, x.cut.terms, lineBytes)
	of(x.aRest, x.cut.rows, x.cut.rest*x.s.Size)
	of(x.bRest, x.cut.rest, lineBytes)
	x.Emit("LDTILECFG", x.Constant(c))
}

// eachSum visits the sums of all parts.
func (x *unitGen) eachSum(visit func(t asm.Tile, row, v int)) {
	for part, row := range x.cut.first {
		for v := range x.s.Vectors {
			visit(x.sumTile(part, v), row, v)
		}
	}
}

// emitUnit writes the whole function for a spec that the matrix unit multiplies.
func (g *gen) emitUnit() {
	x := g.unitGen()
	g.unit = x
	g.begin()
	x.configure()
	g.Emit("MOVQ", asm.Imm(x.cut.step), unitStep)
	g.Emit("MOVQ", asm.Imm(x.cut.vecStep), unitVecStep)
	g.Align(32)
	tile := g.NewLabel()
	g.Bind(tile)
	x.start()
	g.loops(0)
	x.finish()
	g.nextTile(tile)
	g.Emit("TILERELEASE")
	g.Emit("VZEROUPPER")
	g.Emit("RET")
}

// start gives sums their first values. A bias is the same line for all rows; of the last vector it has all lanes.
func (x *unitGen) start() {
	if x.s.Start != FromLanes {
		x.eachSum(func(t asm.Tile, _, _ int) { x.Emit("TILEZERO", t) })
		return
	}
	x.operand(Bias, in)
	x.eachSum(func(t asm.Tile, _, v int) { x.Emit("TILELOADD", asm.Mem{Base: in, Disp: int32(v * lineBytes)}, t) })
}

// run adds the terms of a run.
func (x *unitGen) run(r *Run) {
	if n := r.Terms / x.cut.terms; n == 1 {
		x.chunk(x.a, x.b, x.cut.terms)
	} else if n > 1 {
		x.Emit("MOVL", asm.Imm(n), count)
		x.Align(32)
		top := x.NewLabel()
		x.Bind(top)
		x.chunk(x.a, x.b, x.cut.terms)
		x.Emit("DECQ", count)
		x.Emit("JNE", top)
	}
	if rest := r.Terms % x.cut.terms; rest > 0 {
		x.chunk(x.aRest, x.bRest, rest)
	}
}

// chunk adds so many terms to all sums, and moves behind them. A factor that is in its register is not loaded again:
// every other part goes over vectors the other way.
func (x *unitGen) chunk(a, b []asm.Tile, terms int) {
	x.ask(terms)
	hasA, hasB := [unitTiles]int{}, [unitTiles]int{}
	for part, row := range x.cut.first {
		ta := a[part%len(a)]
		for i := range x.s.Vectors {
			v := i
			if part%2 > 0 {
				v = x.s.Vectors - 1 - i
			}
			tb := b[v%len(b)]
			if hasA[ta] != part+1 {
				x.Emit("TILELOADD", asm.Mem{Base: in, Index: unitStep, Scale: 1, Disp: int32(x.s.In[row])}, ta)
				hasA[ta] = part + 1
			}
			if hasB[tb] != v+1 {
				x.Emit("TILELOADD", asm.Mem{Base: vec, Index: unitVecStep, Scale: 1, Disp: int32(v * lineBytes)}, tb)
				hasB[tb] = v + 1
			}
			x.Emit("TDPBUSD", tb, ta, x.sumTile(part, v))
		}
	}
	x.advance(in, terms*x.s.Size)
	x.advance(vec, terms*x.cut.vecStep)
}

// ask asks for the lines that a spec wants of a chunk.
func (x *unitGen) ask(terms int) {
	for i := range x.s.Ahead * terms / FewTerms {
		x.Emit("PREFETCHT1", asm.Mem{Base: ahead, Disp: int32(i * lineBytes)})
	}
	x.advance(ahead, x.s.Ahead*terms/FewTerms*lineBytes)
	if x.s.Near == 0 {
		return
	}
	for i := range terms {
		for v := range x.s.Vectors {
			x.Emit("PREFETCHT0", asm.Mem{Base: vec, Disp: int32(i*x.cut.vecStep + v*lineBytes + x.s.Near)})
		}
	}
}

// finish writes the sums to the result, or by way of memory that stays near to registers for what follows.
func (x *unitGen) finish() {
	s := x.s
	if s.Levels == Sums && len(s.Tail) == 0 && s.Start != FromResult && x.cut.outStep != 0 && !s.partial(x.isa) {
		x.Emit("MOVQ", asm.Imm(x.cut.outStep), count)
		x.eachSum(func(t asm.Tile, row, v int) {
			x.Emit("TILESTORED", t, asm.Mem{Base: outTile, Index: count, Scale: 1, Disp: int32(s.Out[row] + v*lineBytes)})
		})
		return
	}
	line := s.Vectors * lineBytes
	x.operand(Room, room)
	x.Emit("MOVL", asm.Imm(line), count)
	x.eachSum(func(t asm.Tile, row, v int) {
		x.Emit("TILESTORED", t, asm.Mem{Base: room, Index: count, Scale: 1, Disp: int32(row*line + v*lineBytes)})
	})
	step := unitPass / s.Vectors &^ 1
	for row := 0; row < s.Rows; row += step {
		x.pass(row, min(step, s.Rows-row))
	}
}

// pass finishes some rows of the sums in registers.
func (x *unitGen) pass(row, rows int) {
	whole := x.s
	part := *whole
	part.Rows, part.Out = rows, part.Out[row:row+rows]
	x.gen.s, x.sums = &part, rows*part.Vectors
	for i := range rows {
		for v := range part.Vectors {
			at := asm.Mem{Base: room, Disp: int32(((row+i)*part.Vectors + v) * lineBytes)}
			x.Emit("VMOVUPS", at, x.sum(i, v))
		}
	}
	if part.Start == FromResult {
		x.eachResult(outTile, func(i, v int, at asm.Mem, masked bool) {
			x.load(at, x.free(0), masked)
			x.Emit("VPADDD", x.free(0), x.sum(i, v), x.sum(i, v))
		})
	}
	x.gen.finish()
	x.gen.s = whole
}
