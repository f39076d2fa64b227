package spirv

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// Floats has the rules that a module demands for floats of one size. Only devices that support the rules accept the
// module.
type Floats struct {
	DenormPreserve      bool // subnormal operands and results are kept
	SignedZeroInfNan    bool // signs of zeros, infinities and NaN are kept
	RoundingNearestEven bool
}

// Options are the rules for float32 and for float64 that a module demands.
type Options struct{ Float32, Float64 Floats }

// Module returns the words of the SPIR-V module of a kernel.
func Module(kernel *ir.Kernel, options Options) ([]uint32, error) {
	if err := kernel.Check(); err != nil {
		return nil, err
	}
	out := &printer{module: module{idByKey: map[string]uint32{}}, Kernel: kernel, options: options,
		resultIDs: make([]uint32, len(kernel.Insts)), vectors: map[ir.Value]uint32{}}
	for _, capability := range []uint32{capShader, capInt64, capAddresses} {
		out.requireCapability(capability)
	}
	out.glslSet, out.main = out.id(), out.id()
	out.declareInputs()
	for _, array := range kernel.Shared {
		length := out.constant(opConstant, out.typeOf(tensor.Uint32), uint32(array.Length))
		arrayType := out.declare(opTypeArray, out.typeOf(array.DType), length)
		out.shared = append(out.shared, out.variable(arrayType, classWorkgroup))
	}
	for index := range kernel.Insts {
		if err := out.emitInst(ir.Value(index), &kernel.Insts[index]); err != nil {
			return nil, fmt.Errorf("spirv: v%d: %w", index, err)
		}
	}
	return out.assemble(), nil
}

// printer builds the module of a kernel. In SPIR-V, types, constants, variables, labels and results of instructions all
// have ids, which are numbers from 1. Here, ids have the type uint32, like the words of instructions. For example, the
// float32 sum v2 = Add v0, v1 becomes OpFAdd with four ids: the type, a new id for the result, and the results of v0
// and v1.
type printer struct {
	module
	*ir.Kernel
	options   Options
	resultIDs []uint32            // indexed by value: its id
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
	isLoop, hasElse     bool
	beginLabel          uint32 // the header of a Loop, or the first block of an If
	continueOrElseLabel uint32 // the continue target of a Loop, or the Else of an If
	mergeLabel          uint32 // the merge block, which follows the Loop or If
}

// typeOf returns the id of the type of a dtype. Signed and unsigned integers have the same types, because SPIR-V has
// separate instructions for signed and unsigned integers.
func (p *printer) typeOf(dtype tensor.DType) uint32 {
	switch {
	case dtype == tensor.Bool:
		return p.declare(opTypeBool)
	case dtype == tensor.Float64:
		p.requireCapability(capFloat64)
		return p.declare(opTypeFloat, 64)
	case dtype == tensor.Float32:
		return p.declare(opTypeFloat, 32)
	case dtype.Size() == 1:
		p.requireCapability(cap8Bit)
	case dtype.Size() == 2:
		p.requireCapability(cap16Bit)
	}
	const unsignedType = 0
	return p.declare(opTypeInt, uint32(8*dtype.Size()), unsignedType)
}

// declareInputs declares the push constants, and computes the indices of the group and of the thread.
func (p *printer) declareInputs() {
	u32, u64 := p.typeOf(tensor.Uint32), p.typeOf(tensor.Uint64)
	if p.Params > 0 {
		addresses := p.declare(opTypeStruct, slices.Repeat([]uint32{u64}, p.Params)...)
		emit(&p.decorations, opDecorate, addresses, decorationBlock)
		for param := range p.Params {
			emit(&p.decorations, opMemberDecorate, addresses, uint32(param), decorationOffset, uint32(8*param))
		}
		p.pushConstants = p.variable(addresses, classPush)
	}
	const components = 3 // x, y and z
	vector := p.declare(opTypeVector, u32, components)
	input := func(typeID, builtIn uint32) uint32 {
		variable := p.variable(typeID, classInput)
		emit(&p.decorations, opDecorate, variable, decorationBuiltIn, builtIn)
		return variable
	}
	localIndex := input(u32, builtInLocalIndex)
	group, count := input(vector, builtInWorkgroupID), input(vector, builtInNumWorkgroups)
	p.thread = p.emitResult(opLoad, u32, localIndex)
	groupID, groupCount := p.emitResult(opLoad, vector, group), p.emitResult(opLoad, vector, count)
	// The index of the group is y*(number of groups in x) + x.
	y := p.emitResult(opCompositeExtract, u32, groupID, 1)
	row := p.emitResult(opIMul, u32, y, p.emitResult(opCompositeExtract, u32, groupCount, 0))
	p.group = p.emitResult(opIAdd, u32, row, p.emitResult(opCompositeExtract, u32, groupID, 0))
}

// assemble joins the sections of the module in the order that the specification requires.
func (p *printer) assemble() []uint32 {
	void := p.declare(opTypeVoid)
	function, label := p.declare(opTypeFunction, void), p.id()
	modes := p.modes()
	const generator, reserved = 0, 0
	words := append([]uint32{magic, version, generator, p.lastID + 1, reserved}, p.capabilities...)
	emit(&words, opExtInstImport, append([]uint32{p.glslSet}, text("GLSL.std.450")...)...)
	const physicalStorageBuffer64, glsl450, glCompute = 5348, 1, 5
	emit(&words, opMemoryModel, physicalStorageBuffer64, glsl450)
	entry := append([]uint32{glCompute, p.main}, text("main")...)
	emit(&words, opEntryPoint, append(entry, p.globalIDs...)...)
	words = slices.Concat(words, modes, p.decorations, p.declarations)
	const noFunctionControl = 0
	emit(&words, opFunction, void, p.main, noFunctionControl, function)
	emit(&words, opLabel, label)
	words = slices.Concat(words, p.variables, p.body)
	emit(&words, opReturn)
	emit(&words, opFunctionEnd)
	return words
}

// modes returns the instructions that set the execution modes: the group size, and the rules for floats of the widths
// (in bits) that the kernel uses. It adds the capabilities that these modes require.
func (p *printer) modes() (modes []uint32) {
	emit(&modes, opExecutionMode, p.main, modeLocalSize, uint32(p.GroupSize), 1, 1)
	add := func(demanded bool, capability, mode, width uint32) {
		if demanded {
			p.requireCapability(capability)
			emit(&modes, opExecutionMode, p.main, mode, width)
		}
	}
	floats := map[uint32]Floats{32: p.options.Float32}
	if slices.ContainsFunc(p.Insts, func(i ir.Inst) bool { return i.DType == tensor.Float64 }) {
		floats[64] = p.options.Float64
	}
	for _, width := range []uint32{32, 64} {
		rules := floats[width] // no rules if the kernel has no floats of this width
		add(rules.DenormPreserve, capDenormPreserve, modeDenormPreserve, width)
		add(rules.SignedZeroInfNan, capSignedZeroInfNan, modeSignedZeroInfNan, width)
		add(rules.RoundingNearestEven, capRoundingRTE, modeRoundingRTE, width)
	}
	return modes
}

// number returns the id of a scalar constant with the given bits.
func (p *printer) number(dtype tensor.DType, bits uint64) uint32 {
	switch {
	case dtype == tensor.Bool && bits == 0:
		return p.constant(opConstantFalse, p.typeOf(dtype))
	case dtype == tensor.Bool:
		return p.constant(opConstantTrue, p.typeOf(dtype))
	case dtype.Size() == 8:
		return p.constant(opConstant, p.typeOf(dtype), uint32(bits), uint32(bits>>32))
	}
	return p.constant(opConstant, p.typeOf(dtype), uint32(bits))
}

// glslBase is added to the numbers of instructions of GLSL.std.450 in opcodes, to distinguish them from core opcodes.
const glslBase = 1000

// opcodes has the opcodes of each operation on unsigned integers (column 0), signed integers (1), floats (2) and bools
// (3). 0 means that there is no instruction.
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

// opcodeColumn returns the column of opcodes for a dtype.
func opcodeColumn(dtype tensor.DType) int {
	switch {
	case dtype == tensor.Bool:
		return 3
	case dtype.IsFloat():
		return 2
	case dtype.IsSigned():
		return 1
	}
	return 0
}

// emitLaneOp adds the instruction that computes value. inst is an operation of package lane, and args has the ids of
// its operands.
func (p *printer) emitLaneOp(value ir.Value, inst *ir.Inst, args []uint32) error {
	// operandDType is the dtype of the operation. It is the dtype of the last operand, because the result of a comparison
	// and the first operand of a Select are bools.
	op := lane.Op(inst.Op)
	operandDType := inst.DType
	if uses := inst.Operands(); len(uses) > 0 {
		operandDType = p.Type(uses[len(uses)-1])
	}
	switch op {
	case lane.Const:
		p.resultIDs[value] = p.number(inst.DType, inst.Imm)
	case lane.Bits: // dtypes that differ only in their sign have the same type, which OpBitcast rejects
		p.resultIDs[value] = args[0]
		if p.typeOf(inst.DType) != p.typeOf(operandDType) {
			p.resultIDs[value] = p.emitResult(opBitcast, p.typeOf(inst.DType), args[0])
		}
	case lane.Convert:
		p.resultIDs[value] = p.emitResult(conversion(inst.DType, operandDType), p.typeOf(inst.DType), args[0])
	case lane.Lookup:
		p.resultIDs[value] = p.emitLookup(inst.Table, args[0])
	default:
		opcode := opcodes[op][opcodeColumn(operandDType)]
		if opcode == 0 {
			return fmt.Errorf("%v of %v has no instruction", op, operandDType)
		}
		if opcode > glslBase {
			p.resultIDs[value] = p.emitGLSL(opcode-glslBase, op, inst.DType, args)
			return nil
		}
		p.resultIDs[value] = p.emitResult(opcode, p.typeOf(inst.DType), args...)
		if operandDType.IsFloat() && !op.Compares() && op != lane.Select { // forbid the fusion of a product and a sum
			emit(&p.decorations, opDecorate, p.resultIDs[value], decorationNoContraction)
		}
	}
	return nil
}

// emitGLSL adds an instruction of GLSL.std.450 that computes op, and returns the id of its result.
func (p *printer) emitGLSL(instruction uint32, op lane.Op, dtype tensor.DType, args []uint32) uint32 {
	operands := append([]uint32{p.glslSet, instruction}, args...)
	result := p.emitResult(opExtInst, p.typeOf(dtype), operands...)
	if op.Rounds() && dtype == tensor.Float64 {
		return p.withSign(result, args[0])
	}
	return result
}

// withSign returns `rounded`, the result of rounding the float64 `operand` to an integer, with the sign of `operand`.
// Mesa rounds float64 by integer operations that lose the sign of zero (nir_lower_double_ops.c).
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

// emitLookup adds the load of an entry of a table, and returns its id. The low 5 bits of operand are the index. The
// first lookup in a table declares the table, as a variable with constant contents.
func (p *printer) emitLookup(table *[32]float32, operand uint32) uint32 {
	u32, f32 := p.typeOf(tensor.Uint32), p.typeOf(tensor.Float32)
	key := fmt.Sprint("table", *table)
	variable, ok := p.idByKey[key]
	if !ok {
		var entries []uint32
		for _, entry := range table {
			entries = append(entries, p.number(tensor.Float32, uint64(math.Float32bits(entry))))
		}
		array := p.declare(opTypeArray, f32, p.number(tensor.Uint32, uint64(len(table))))
		variable = p.variable(array, classPrivate, p.constant(opConstantComposite, array, entries...))
		p.idByKey[key] = variable
	}
	index := p.emitResult(opBitwiseAnd, u32, p.emitResult(opBitcast, u32, operand), p.number(tensor.Uint32, 31))
	pointer := p.declare(opTypePointer, classPrivate, f32)
	return p.emitResult(opLoad, f32, p.emitResult(opAccessChain, pointer, variable, index))
}
