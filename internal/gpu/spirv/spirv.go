package spirv

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Floats are the rules for floats of a number of bits that a module demands. A device must support them.
type Floats struct {
	DenormPreserve      bool // subnormal operands and results are kept
	SignedZeroInfNan    bool // zeros of both signs, infinities and NaN are kept
	RoundingNearestEven bool
}

// Options are properties of the device.
type Options struct{ Float32, Float64 Floats }

// Module returns the module of a kernel.
func Module(k *ir.Kernel, o Options) ([]uint32, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	p := &printer{module: module{known: map[string]uint32{}}, Kernel: k, options: o, ids: make([]uint32, len(k.Insts)),
		vectors: map[ir.Value]uint32{}}
	for _, c := range []uint32{capShader, capInt64, capAddresses} {
		p.capability(c)
	}
	p.glsl, p.main = p.id(), p.id()
	p.inputs()
	for _, a := range k.Shared {
		n := p.constant(opConstant, p.typ(tensor.Uint32), uint32(a.N))
		p.shared = append(p.shared, p.variable(p.declare(opTypeArray, p.typ(a.D), n), classWorkgroup))
	}
	for v := range k.Insts {
		if err := p.inst(ir.Value(v), &k.Insts[v]); err != nil {
			return nil, fmt.Errorf("spirv: v%d: %w", v, err)
		}
	}
	return p.assemble(), nil
}

// printer is a module of a kernel under construction.
type printer struct {
	module
	*ir.Kernel
	options    Options
	ids        []uint32            // by value
	vectors    map[ir.Value]uint32 // by Load of several words
	glsl, main uint32
	push       uint32 // the push constants
	group      uint32 // the index of the group
	thread     uint32
	shared     []uint32
	open       []block
}

// block is an open Loop or If.
type block struct {
	isLoop, hasElse         bool
	header, continues, next uint32 // of an If, continues is the label of its Else
}

// typ returns the type of a dtype. Integers have no sign: instructions do.
func (p *printer) typ(d tensor.DType) uint32 {
	switch {
	case d == tensor.Bool:
		return p.declare(opTypeBool)
	case d == tensor.Float64:
		p.capability(capFloat64)
		return p.declare(opTypeFloat, 64)
	case d == tensor.Float32:
		return p.declare(opTypeFloat, 32)
	case d.Size() == 1:
		p.capability(cap8Bit)
	case d.Size() == 2:
		p.capability(cap16Bit)
	}
	return p.declare(opTypeInt, uint32(8*d.Size()), 0)
}

// inputs declares the push constants and the indices of the thread.
func (p *printer) inputs() {
	u32, u64 := p.typ(tensor.Uint32), p.typ(tensor.Uint64)
	if p.Params > 0 {
		addresses := p.declare(opTypeStruct, slices.Repeat([]uint32{u64}, p.Params)...)
		emit(&p.decorations, opDecorate, addresses, decorationBlock)
		for k := range p.Params {
			emit(&p.decorations, opMemberDecorate, addresses, uint32(k), decorationOffset, uint32(8*k))
		}
		p.push = p.variable(addresses, classPush)
	}
	vector := p.declare(opTypeVector, u32, 3)
	input := func(typ, builtIn uint32) uint32 {
		v := p.variable(typ, classInput)
		emit(&p.decorations, opDecorate, v, decorationBuiltIn, builtIn)
		return v
	}
	local, group, count := input(u32, builtInLocalIndex), input(vector, builtInWorkgroupID),
		input(vector, builtInNumWorkgroups)
	p.thread = p.do(opLoad, u32, local)
	id, n := p.do(opLoad, vector, group), p.do(opLoad, vector, count)
	row := p.do(opIMul, u32, p.do(opCompositeExtract, u32, id, 1), p.do(opCompositeExtract, u32, n, 0))
	p.group = p.do(opIAdd, u32, row, p.do(opCompositeExtract, u32, id, 0))
}

// assemble joins the sections in the order that the specification requires.
func (p *printer) assemble() []uint32 {
	void := p.declare(opTypeVoid)
	function, label := p.declare(opTypeFunction, void), p.id()
	modes := p.modes()
	words := append([]uint32{magic, version, 0, p.next + 1, 0}, p.capabilities...)
	emit(&words, opExtInstImport, append([]uint32{p.glsl}, text("GLSL.std.450")...)...)
	emit(&words, opMemoryModel, 5348, 1) // PhysicalStorageBuffer64, GLSL450
	entry := append([]uint32{5, p.main}, text("main")...)
	emit(&words, opEntryPoint, append(entry, p.global...)...)
	words = slices.Concat(words, modes, p.decorations, p.declarations)
	emit(&words, opFunction, void, p.main, 0, function)
	emit(&words, opLabel, label)
	words = slices.Concat(words, p.variables, p.body)
	emit(&words, opReturn)
	emit(&words, opFunctionEnd)
	return words
}

// modes returns the execution modes, and declares their capabilities.
func (p *printer) modes() (modes []uint32) {
	emit(&modes, opExecutionMode, p.main, modeLocalSize, uint32(p.GroupSize), 1, 1)
	add := func(demanded bool, capability, mode, width uint32) {
		if demanded {
			p.capability(capability)
			emit(&modes, opExecutionMode, p.main, mode, width)
		}
	}
	floats := map[uint32]Floats{32: p.options.Float32}
	if slices.ContainsFunc(p.Insts, func(i ir.Inst) bool { return i.D == tensor.Float64 }) {
		floats[64] = p.options.Float64
	}
	for _, width := range []uint32{32, 64} {
		f := floats[width]
		add(f.DenormPreserve, capDenormPreserve, modeDenormPreserve, width)
		add(f.SignedZeroInfNan, capSignedZeroInfNan, modeSignedZeroInfNan, width)
		add(f.RoundingNearestEven, capRoundingRTE, modeRoundingRTE, width)
	}
	return modes
}

func (p *printer) number(d tensor.DType, bits uint64) uint32 {
	switch {
	case d == tensor.Bool && bits == 0:
		return p.constant(opConstantFalse, p.typ(d))
	case d == tensor.Bool:
		return p.constant(opConstantTrue, p.typ(d))
	case d.Size() == 8:
		return p.constant(opConstant, p.typ(d), uint32(bits), uint32(bits>>32))
	}
	return p.constant(opConstant, p.typ(d), uint32(bits))
}

// forms are the opcodes of operations on unsigned and signed integers, floats and bools. Numbers above 1000 are 1000
// plus an instruction of GLSL.std.450.
var forms = map[lane.Op][4]uint32{
	lane.Add: {opIAdd, opIAdd, opFAdd}, lane.Sub: {opISub, opISub, opFSub}, lane.Mul: {opIMul, opIMul, opFMul},
	lane.Div: {opUDiv, opSDiv, opFDiv}, lane.FMA: {2: 1000 + glslFma}, lane.Sqrt: {2: 1000 + glslSqrt},
	lane.Floor: {2: 1000 + glslFloor}, lane.Ceil: {2: 1000 + glslCeil}, lane.Trunc: {2: 1000 + glslTrunc},
	lane.Rint: {2: 1000 + glslRoundEven}, lane.And: {opBitwiseAnd, opBitwiseAnd, 0, opLogicalAnd},
	lane.Or:     {opBitwiseOr, opBitwiseOr, 0, opLogicalOr},
	lane.Xor:    {opBitwiseXor, opBitwiseXor, 0, opLogicalNotEqual},
	lane.Not:    {opNot, opNot, 0, opLogicalNot},
	lane.Shl:    {opShiftLeftLogical, opShiftLeftLogical},
	lane.Shr:    {opShiftRightLogical, opShiftRightArithmetic},
	lane.Eq:     {opIEqual, opIEqual, opFOrdEqual},
	lane.Ne:     {opINotEqual, opINotEqual, opFUnordNotEqual},
	lane.Lt:     {opULessThan, opSLessThan, opFOrdLessThan},
	lane.Le:     {opULessThanEqual, opSLessThanEqual, opFOrdLessThanEqual},
	lane.Select: {opSelect, opSelect, opSelect},
}

func class(d tensor.DType) int {
	switch {
	case d == tensor.Bool:
		return 3
	case d.IsFloat():
		return 2
	case d.IsSigned():
		return 1
	}
	return 0
}

// scalar adds an operation of package lane.
func (p *printer) scalar(v ir.Value, i *ir.Inst, args []uint32) error {
	op := lane.Op(i.Op)
	from := i.D
	if uses := i.Uses(); len(uses) > 0 {
		from = p.Type(uses[len(uses)-1])
	}
	switch op {
	case lane.Const:
		p.ids[v] = p.number(i.D, i.Imm)
	case lane.Bits:
		if p.ids[v] = args[0]; p.typ(i.D) != p.typ(from) {
			p.ids[v] = p.do(opBitcast, p.typ(i.D), args[0])
		}
	case lane.Convert:
		p.ids[v] = p.do(conversion(i.D, from), p.typ(i.D), args[0])
	case lane.Lookup:
		p.ids[v] = p.lookup(i.Table, args[0])
	default:
		code := forms[op][class(from)]
		if code == 0 {
			return fmt.Errorf("%v of %v has no instruction", op, from)
		}
		if code > 1000 {
			p.ids[v] = p.do(opExtInst, p.typ(i.D), append([]uint32{p.glsl, code - 1000}, args...)...)
			if op.Rounds() && i.D == tensor.Float64 {
				p.ids[v] = p.withSign(p.ids[v], args[0])
			}
			return nil
		}
		if p.ids[v] = p.do(code, p.typ(i.D), args...); from.IsFloat() && !op.Compares() && op != lane.Select {
			emit(&p.decorations, opDecorate, p.ids[v], decorationNoContraction)
		}
	}
	return nil
}

// withSign returns a rounded float64 with the sign of its operand. Mesa rounds float64 by integer operations that lose
// the sign of zero (nir_lower_double_ops.c).
func (p *printer) withSign(rounded, operand uint32) uint32 {
	bits, float := p.typ(tensor.Int64), p.typ(tensor.Float64)
	sign := p.do(opBitwiseAnd, bits, p.do(opBitcast, bits, operand), p.number(tensor.Int64, 1<<63))
	return p.do(opBitcast, float, p.do(opBitwiseOr, bits, p.do(opBitcast, bits, rounded), sign))
}

func conversion(to, from tensor.DType) uint32 {
	switch {
	case to.IsFloat() && from.IsFloat():
		return opFConvert
	case from.IsFloat():
		return opConvertFToS
	case to.IsFloat() && from.IsSigned():
		return opConvertSToF
	case to.IsFloat():
		return opConvertUToF
	case to.Size() > from.Size() && from.IsSigned():
		return opSConvert
	}
	return opUConvert
}

// lookup reads an entry of a table, which is a variable with constant contents.
func (p *printer) lookup(table *[32]float32, x uint32) uint32 {
	u32, f32 := p.typ(tensor.Uint32), p.typ(tensor.Float32)
	key := fmt.Sprint("table", *table)
	variable, ok := p.known[key]
	if !ok {
		var entries []uint32
		for _, e := range table {
			entries = append(entries, p.number(tensor.Float32, uint64(math.Float32bits(e))))
		}
		array := p.declare(opTypeArray, f32, p.number(tensor.Uint32, uint64(len(table))))
		variable = p.variable(array, classPrivate, p.constant(opConstantComposite, array, entries...))
		p.known[key] = variable
	}
	index := p.do(opBitwiseAnd, u32, p.do(opBitcast, u32, x), p.number(tensor.Uint32, 31))
	pointer := p.declare(opTypePointer, classPrivate, f32)
	return p.do(opLoad, f32, p.do(opAccessChain, pointer, variable, index))
}
