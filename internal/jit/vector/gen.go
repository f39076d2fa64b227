package vector

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/asm"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// gen makes the code of one loop.
type gen struct {
	loop *expr.Loop
	code *expr.Code // without elementary functions
	opts Options
	wide bool // some value has 64 bits
	n    int  // elements a turn
	z    bool // AVX-512: masks, 32 registers of 512 bits
	outs int

	vals     []value
	done     []*lowered     // by expr.Value
	need     []int          // by expr.Value: registers that computing it takes, about
	pairs    map[int][2]val // parts of complex operands
	consts   map[memory]val // constants by data
	bitMasks map[[2]val]val // lanes of a value that have a bit
	looked   map[lookedUp]val
	offsets  map[val]val // of rows of tables, by what says which
	row      []inst      // once a row
	body     []inst      // once a turn
	folds    [3][]inst   // once a turn: accumulators in registers, in memory, in memory and some elements only
	stores   []inst      // once a turn
	last     []inst      // the body in tails
	accIn    []inst      // accumulators into their registers
	accOut   []inst      // and back
	accs     []*accRef
	spare    []*allocator // whose memory is used again
	inTail   val          // which elements there are: without AVX-512, or for totals
	err      error
	asm      *asm.Assembler
	again    int // instructions that loops within turns execute beyond the first time
	work     jit.Work
	frame
}

// lowered is a value of an expression in a register. Integers of fewer than 32 bits lie in lanes of 32 bits,
// extended by their sign or by zeros unless they are dirty; 16-bit floats so, by zeros, or as a half vector of
// them; bools in masks or, without AVX-512, in lanes of all bits or none, as wide as the widest value.
type lowered struct {
	v     val
	dirty bool // the bits above the dtype's are any
	half  val  // 16-bit floats side by side
	dtype tensor.DType
}

func newGen(l *expr.Loop, isa machine.ISA, opts Options) (*gen, error) {
	if isa != machine.AVX512 && isa != machine.AVX2 {
		return nil, unsupported("for %v", isa)
	}
	if !l.Code.Compilable() {
		return nil, unsupported("a function that only Go has")
	}
	l, err := expand(l, TargetOf(isa))
	if err != nil {
		return nil, err
	}
	g := &gen{loop: l, code: l.Code, opts: opts, z: isa == machine.AVX512, vals: make([]value, 1),
		pairs: map[int][2]val{}, consts: map[memory]val{}, bitMasks: map[[2]val]val{}, looked: map[lookedUp]val{},
		offsets: map[val]val{}, outs: len(l.Code.Out)}
	if n := g.outs + len(l.Code.In) + len(l.Folds); n > jit.MaxOperands {
		return nil, unsupported("%d pointers", n)
	}
	for _, i := range g.code.Insts {
		wide := i.DType.Size() == 8
		if i.Op == expr.Div && (i.DType == tensor.Int32 || i.DType == tensor.Uint32) {
			wide = true // by way of float64
		}
		g.wide = g.wide || wide
	}
	g.n = 8
	if g.z {
		g.n = 16
	}
	if g.wide {
		g.n /= 2
	}
	g.done = make([]*lowered, len(g.code.Insts))
	return g, nil
}

// TargetOf says what an instruction set has that expansions make use of.
func TargetOf(isa machine.ISA) expr.Target {
	return expr.Target{Scale: isa == machine.AVX512}
}

// expand replaces elementary functions by primitives. Values of folds are found again as outputs that are stored
// nowhere.
func expand(l *expr.Loop, t expr.Target) (*expr.Loop, error) {
	outs := len(l.Code.Out)
	c := *l.Code
	c.Out = slices.Clone(c.Out)
	for _, f := range l.Folds {
		c.Out = append(c.Out, expr.Output{DType: tensor.Invalid, Re: f.V, Im: expr.None})
	}
	e, err := c.Expand(t)
	if err != nil {
		return nil, unsupported("%v", err)
	}
	x := &expr.Loop{Code: e, Scalar: l.Scalar, Totals: l.Totals}
	for k, f := range l.Folds {
		x.Folds = append(x.Folds, expr.Fold{Op: f.Op, V: e.Out[outs+k].Re})
	}
	e.Out = e.Out[:outs]
	return x, nil
}

func (g *gen) fail(format string, args ...any) {
	if g.err == nil {
		g.err = unsupported(format, args...)
	}
}

// lane returns the bytes in a register of an element that is computed with.
func lane(d tensor.DType) int {
	if d.Size() == 8 {
		return 8
	}
	return 4
}

// width returns the bytes of a register of elements of so many bytes.
func (g *gen) width(lane int) uint8 { return uint8(max(g.n*lane, 16)) }

// maskLane is how wide the lanes of a bool are without AVX-512.
func (g *gen) maskLane() int {
	if g.wide {
		return 8
	}
	return 4
}

// newVal returns a value of a register.
func (g *gen) newVal(v value) val {
	g.vals = append(g.vals, v)
	return val(len(g.vals) - 1)
}

// boolVal returns a value that holds bools.
func (g *gen) boolVal() value {
	if g.z {
		return value{mask: true}
	}
	return value{w: g.width(g.maskLane())}
}

// add appends an instruction: to those once a row, if what it reads allows.
func (g *gen) add(in inst) val {
	inv, konst := true, true
	note := func(v val) {
		if v != 0 {
			inv = inv && g.vals[v].inv
			konst = konst && g.vals[v].konst
		}
	}
	for _, s := range in.src {
		note(s.v)
	}
	note(in.tied)
	note(in.mask)
	if in.dst != 0 {
		g.vals[in.dst].inv, g.vals[in.dst].konst = inv, konst
	}
	if inv && in.dst != 0 {
		g.row = append(g.row, in)
	} else {
		g.body = append(g.body, in)
	}
	return in.dst
}

// of makes sources of values.
func of(vs ...val) []arg {
	a := make([]arg, len(vs))
	for k, v := range vs {
		a[k].v = v
	}
	return a
}

// op2 is b op a, in the order of Go's assembler, of lanes of some bytes.
func (g *gen) op2(name string, lane int, b, a val) val {
	return g.add(inst{name: name, src: of(b, a), dst: g.newVal(value{w: g.vals[a].w}), rm: 0, lane: uint8(lane)})
}

// sym2 is a op b, which is b op a.
func (g *gen) sym2(name string, lane int, a, b val) val {
	return g.add(inst{name: name, src: of(b, a), dst: g.newVal(value{w: g.vals[a].w}), rm: 0, comm: true,
		lane: uint8(lane)})
}

// op1 is an operation on one vector.
func (g *gen) op1(name string, lane int, a val) val {
	return g.add(inst{name: name, src: of(a), dst: g.newVal(value{w: g.vals[a].w}), rm: 0, lane: uint8(lane)})
}

// imm1 is an operation on a constant and a vector. Shifts of VEX take no memory.
func (g *gen) imm1(name string, imm int64, a val) val {
	return g.add(inst{name: name, src: []arg{{imm: imm}, {v: a}}, dst: g.newVal(value{w: g.vals[a].w}), rm: -1})
}

// wide1 is an operation whose result has another width.
func (g *gen) to(name string, w uint8, lane int, a val) val {
	return g.add(inst{name: name, src: of(a), dst: g.newVal(value{w: w}), rm: 0, lane: uint8(lane)})
}

// bits returns a constant in all lanes of some bytes.
func (g *gen) bits(lane int, x uint64) val {
	b := binary.LittleEndian.AppendUint64(nil, x)[:lane]
	w := g.width(lane)
	if g.z {
		name := "VBROADCASTSS"
		if lane == 8 {
			name = "VBROADCASTSD"
		}
		return g.constant(name, w, lane, string(b))
	}
	return g.constant("VMOVUPS", w, 0, strings.Repeat(string(b), int(w)/lane))
}

// constant returns data as a value.
func (g *gen) constant(name string, w uint8, lane int, data string) val {
	key := memory{kind: inConstant, data: data, n: int(w)}
	if v, ok := g.consts[key]; ok {
		return v
	}
	rec := &recipe{name: name, mem: memory{kind: inConstant, data: data}, lane: uint8(lane), plain: true}
	v := g.newVal(value{w: w, inv: true, konst: true, rec: rec})
	g.consts[key] = v
	return v
}

// vector returns a whole vector of bytes.
func (g *gen) vector(data []byte) val {
	return g.constant("VMOVUPS", uint8(len(data)), 0, string(data))
}

// suffix returns PS or PD.
func suffix(lane int) string {
	if lane == 8 {
		return "PD"
	}
	return "PS"
}

// elem returns D or Q.
func elem(lane int) string {
	if lane == 8 {
		return "Q"
	}
	return "D"
}

// get returns a value of the expression, computed.
func (g *gen) get(v expr.Value) *lowered { return g.done[v] }

// clean returns the register of a value whose upper bits are those of its dtype.
func (g *gen) clean(l *lowered) val {
	if !l.dirty {
		return g.whole(l)
	}
	d := l.dtype
	if d.IsSigned() && !d.IsFloat() {
		s := int64(32 - 8*d.Size())
		l.v = g.imm1("VPSRAD", s, g.imm1("VPSLLD", s, l.v))
	} else {
		l.v = g.and(4, l.v, g.bits(4, 1<<(8*d.Size())-1))
	}
	l.dirty = false
	return l.v
}

// whole returns the register of a value, with 16-bit floats in lanes of 32 bits.
func (g *gen) whole(l *lowered) val {
	if l.v == 0 && l.half != 0 {
		l.v = g.to("VPMOVZXWD", g.width(4), 0, l.half)
	}
	return l.v
}

func (g *gen) logic(name string, lane int, a, b val) val {
	if g.z {
		name += elem(lane)
	}
	return g.sym2(name, lane, a, b)
}

func (g *gen) and(lane int, a, b val) val { return g.logic("VPAND", lane, a, b) }
func (g *gen) or(lane int, a, b val) val  { return g.logic("VPOR", lane, a, b) }
func (g *gen) xor(lane int, a, b val) val { return g.logic("VPXOR", lane, a, b) }
