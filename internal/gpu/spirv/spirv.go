package spirv

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Floats has the rules that a module demands for floats of one size. Only a device that supports them accepts the
// module.
type Floats struct {
	DenormPreserve      bool // subnormal operands and results are kept
	SignedZeroInfNan    bool // signs of zeros, infinities and NaN are kept
	RoundingNearestEven bool
}

// Options are the rules for floats that the device supports.
type Options struct{ Float32, Float64 Floats }

// Module returns the words of the SPIR-V module of a kernel.
func Module(k *ir.Kernel, options Options) ([]uint32, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	out := &printer{module: module{known: map[string]uint32{}}, Kernel: k, options: options,
		resultIDs: make([]uint32, len(k.Insts)), vectors: map[ir.Value]uint32{}}
	for _, c := range []uint32{capShader, capInt64, capAddresses} {
		out.capability(c)
	}
	out.glslSet, out.main = out.id(), out.id()
	out.inputs()
	for _, a := range k.Shared {
		n := out.constant(opConstant, out.typeOf(tensor.Uint32), uint32(a.Length))
		out.shared = append(out.shared, out.variable(out.declare(opTypeArray, out.typeOf(a.DType), n),
			classWorkgroup))
	}
	for v := range k.Insts {
		if err := out.inst(ir.Value(v), &k.Insts[v]); err != nil {
			return nil, fmt.Errorf("spirv: v%d: %w", v, err)
		}
	}
	return out.assemble(), nil
}

// printer builds the module of a kernel. In SPIR-V, types, constants, variables, labels and results of instructions all
// have ids, which are numbers from 1.
type printer struct {
	module
	*ir.Kernel
	options   Options
	resultIDs []uint32            // indexed by value: the id of its result
	vectors   map[ir.Value]uint32 // for each Load of several words: the id of the vector

	// The following fields are ids.
	glslSet, main uint32   // the instruction set GLSL.std.450, and the entry point
	pushConstants uint32   // the variable of the push constants
	group         uint32   // the index of the group
	thread        uint32   // the index of the thread in its group
	shared        []uint32 // indexed by Kernel.Shared: the variable of the array

	open []block // the open blocks, the outermost first
}

// block is an open Loop or If, with the ids of its labels.
type block struct {
	isLoop, hasElse bool
	headerLabel     uint32 // the block with the condition of a Loop, or the first block of an If
	continueLabel   uint32 // the continue target of a Loop, or the Else of an If
	mergeLabel      uint32 // the merge block, which follows the Loop or If
}

// typeOf returns the id of the type of a dtype. Integer types are the same for both signs, because SPIR-V has separate
// instructions for signed and unsigned integers.
func (p *printer) typeOf(d tensor.DType) uint32 {
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

// inputs declares the push constants, and computes the indices of the group and of the thread.
func (p *printer) inputs() {
	u32, u64 := p.typeOf(tensor.Uint32), p.typeOf(tensor.Uint64)
	if p.Params > 0 {
		addresses := p.declare(opTypeStruct, slices.Repeat([]uint32{u64}, p.Params)...)
		emit(&p.decorations, opDecorate, addresses, decorationBlock)
		for k := range p.Params {
			emit(&p.decorations, opMemberDecorate, addresses, uint32(k), decorationOffset, uint32(8*k))
		}
		p.pushConstants = p.variable(addresses, classPush)
	}
	vector := p.declare(opTypeVector, u32, 3)
	input := func(typeID, builtIn uint32) uint32 {
		v := p.variable(typeID, classInput)
		emit(&p.decorations, opDecorate, v, decorationBuiltIn, builtIn)
		return v
	}
	local, group, count := input(u32, builtInLocalIndex), input(vector, builtInWorkgroupID),
		input(vector, builtInNumWorkgroups)
	p.thread = p.emitResult(opLoad, u32, local)
	id, n := p.emitResult(opLoad, vector, group), p.emitResult(opLoad, vector, count)
	// The index of the group is y*(number of groups in x) + x.
	y := p.emitResult(opCompositeExtract, u32, id, 1)
	row := p.emitResult(opIMul, u32, y, p.emitResult(opCompositeExtract, u32, n, 0))
	p.group = p.emitResult(opIAdd, u32, row, p.emitResult(opCompositeExtract, u32, id, 0))
}

// assemble joins the sections of the module in the order that the specification requires.
func (p *printer) assemble() []uint32 {
	void := p.declare(opTypeVoid)
	function, label := p.declare(opTypeFunction, void), p.id()
	modes := p.modes()
	// The header has the bound of all ids, and 0 for the generator and for the reserved word.
	words := append([]uint32{magic, version, 0, p.lastID + 1, 0}, p.capabilities...)
	emit(&words, opExtInstImport, append([]uint32{p.glslSet}, text("GLSL.std.450")...)...)
	emit(&words, opMemoryModel, 5348, 1)                  // PhysicalStorageBuffer64, GLSL450
	entry := append([]uint32{5, p.main}, text("main")...) // 5 is GLCompute
	emit(&words, opEntryPoint, append(entry, p.global...)...)
	words = slices.Concat(words, modes, p.decorations, p.declarations)
	emit(&words, opFunction, void, p.main, 0, function)
	emit(&words, opLabel, label)
	words = slices.Concat(words, p.variables, p.body)
	emit(&words, opReturn)
	emit(&words, opFunctionEnd)
	return words
}

// modes returns the instructions that set the execution modes: the group size and the rules for floats. It declares the
// capabilities that these modes require.
func (p *printer) modes() (modes []uint32) {
	emit(&modes, opExecutionMode, p.main, modeLocalSize, uint32(p.GroupSize), 1, 1)
	add := func(demanded bool, capability, mode, width uint32) {
		if demanded {
			p.capability(capability)
			emit(&modes, opExecutionMode, p.main, mode, width)
		}
	}
	floats := map[uint32]Floats{32: p.options.Float32}
	if slices.ContainsFunc(p.Insts, func(i ir.Inst) bool { return i.DType == tensor.Float64 }) {
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

// number returns the id of a constant with the given bits.
func (p *printer) number(d tensor.DType, bits uint64) uint32 {
	switch {
	case d == tensor.Bool && bits == 0:
		return p.constant(opConstantFalse, p.typeOf(d))
	case d == tensor.Bool:
		return p.constant(opConstantTrue, p.typeOf(d))
	case d.Size() == 8:
		return p.constant(opConstant, p.typeOf(d), uint32(bits), uint32(bits>>32))
	}
	return p.constant(opConstant, p.typeOf(d), uint32(bits))
}

// glslBase is added to the numbers of instructions of GLSL.std.450 in opcodes, to distinguish them from core opcodes.
const glslBase = 1000

// opcodes has the opcodes of each operation on unsigned integers, signed integers, floats and bools, in this order. 0
// means that there is no instruction.
var opcodes = map[lane.Op][4]uint32{
	lane.Add: {opIAdd, opIAdd, opFAdd}, lane.Sub: {opISub, opISub, opFSub}, lane.Mul: {opIMul, opIMul, opFMul},
	lane.Div: {opUDiv, opSDiv, opFDiv}, lane.FMA: {2: glslBase + glslFma}, lane.Sqrt: {2: glslBase + glslSqrt},
	lane.Floor: {2: glslBase + glslFloor}, lane.Ceil: {2: glslBase + glslCeil}, lane.Trunc: {2: glslBase + glslTrunc},
	lane.Rint: {2: glslBase + glslRoundEven}, lane.And: {opBitwiseAnd, opBitwiseAnd, 0, opLogicalAnd},
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

// opcodeColumn returns the index of the opcode for a dtype in an entry of opcodes.
func opcodeColumn(d tensor.DType) int {
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
func (p *printer) scalar(v ir.Value, inst *ir.Inst, args []uint32) error {
	// The last operand has the type of the operation: a comparison has a Bool result, and a Select a Bool first
	// operand.
	op := lane.Op(inst.Op)
	from := inst.DType
	if uses := inst.Uses(); len(uses) > 0 {
		from = p.Type(uses[len(uses)-1])
	}
	switch op {
	case lane.Const:
		p.resultIDs[v] = p.number(inst.DType, inst.Imm)
	case lane.Bits:
		if p.resultIDs[v] = args[0]; p.typeOf(inst.DType) != p.typeOf(from) {
			p.resultIDs[v] = p.emitResult(opBitcast, p.typeOf(inst.DType), args[0])
		}
	case lane.Convert:
		p.resultIDs[v] = p.emitResult(conversion(inst.DType, from), p.typeOf(inst.DType), args[0])
	case lane.Lookup:
		p.resultIDs[v] = p.lookup(inst.Table, args[0])
	default:
		code := opcodes[op][opcodeColumn(from)]
		if code == 0 {
			return fmt.Errorf("%v of %v has no instruction", op, from)
		}
		if code > glslBase {
			operands := append([]uint32{p.glslSet, code - glslBase}, args...)
			p.resultIDs[v] = p.emitResult(opExtInst, p.typeOf(inst.DType), operands...)
			if op.Rounds() && inst.DType == tensor.Float64 {
				p.resultIDs[v] = p.withSign(p.resultIDs[v], args[0])
			}
			return nil
		}
		p.resultIDs[v] = p.emitResult(code, p.typeOf(inst.DType), args...)
		if from.IsFloat() && !op.Compares() && op != lane.Select { // no fusion of a product and a sum
			emit(&p.decorations, opDecorate, p.resultIDs[v], decorationNoContraction)
		}
	}
	return nil
}

// withSign returns a rounded float64 with the sign of its operand. Mesa rounds float64 by integer operations that lose
// the sign of zero (nir_lower_double_ops.c).
func (p *printer) withSign(rounded, operand uint32) uint32 {
	bits, float := p.typeOf(tensor.Int64), p.typeOf(tensor.Float64)
	sign := p.emitResult(opBitwiseAnd, bits, p.emitResult(opBitcast, bits, operand), p.number(tensor.Int64, 1<<63))
	return p.emitResult(opBitcast, float, p.emitResult(opBitwiseOr, bits, p.emitResult(opBitcast, bits, rounded), sign))
}

// conversion returns the opcode of a conversion.
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

// lookup adds the read of an entry of a table, which is a variable with constant contents. The low 5 bits of x are the
// index.
func (p *printer) lookup(table *[32]float32, x uint32) uint32 {
	u32, f32 := p.typeOf(tensor.Uint32), p.typeOf(tensor.Float32)
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
	index := p.emitResult(opBitwiseAnd, u32, p.emitResult(opBitcast, u32, x), p.number(tensor.Uint32, 31))
	pointer := p.declare(opTypePointer, classPrivate, f32)
	return p.emitResult(opLoad, f32, p.emitResult(opAccessChain, pointer, variable, index))
}
