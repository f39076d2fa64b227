// Package spirv translates kernels (package internal/gpu/ir) to SPIR-V modules for Vulkan 1.2.
//
// The entry point is main. The parameters of a kernel (addresses) are its push constants, 8 bytes each. A launch has a
// grid of two dimensions. The index of a group is y*(number of groups in x) + x. The grid may have more groups than the
// kernel needs. The code must have no effect in the surplus groups. Kernels of package lower satisfy this condition.
package spirv

import "fmt"

// The version of the modules is SPIR-V 1.5, which Vulkan 1.2 accepts.
const (
	magic   = 0x07230203
	version = 0x00010500
)

// The opcodes have the names of the specification, without the prefix Op.
const (
	opExtInstImport, opExtInst, opMemoryModel, opEntryPoint, opExecutionMode, opCapability = 11, 12, 14, 15, 16, 17

	opTypeVoid, opTypeBool, opTypeInt, opTypeFloat, opTypeVector, opTypeArray, opTypeStruct = 19, 20, 21, 22, 23, 28, 30

	opTypePointer, opTypeFunction, opConstantTrue, opConstantFalse, opConstant = 32, 33, 41, 42, 43

	opConstantComposite, opFunction, opFunctionEnd, opVariable, opLoad, opStore = 44, 54, 56, 59, 61, 62

	opAccessChain, opDecorate, opMemberDecorate, opCompositeConstruct, opCompositeExtract = 65, 71, 72, 80, 81

	opConvertFToS, opConvertSToF, opConvertUToF, opUConvert, opSConvert, opFConvert = 110, 111, 112, 113, 114, 115

	opConvertUToPtr, opBitcast                                             = 120, 124
	opIAdd, opFAdd, opISub, opFSub, opIMul, opFMul, opUDiv, opSDiv, opFDiv = 128, 129, 130, 131, 132, 133, 134, 135, 136

	opUMulExtended, opLogicalNotEqual, opLogicalOr, opLogicalAnd, opLogicalNot, opSelect = 151, 165, 166, 167, 168, 169

	opIEqual, opINotEqual, opULessThan, opSLessThan, opULessThanEqual, opSLessThanEqual = 170, 171, 176, 177, 178, 179

	opFOrdEqual, opFUnordNotEqual, opFOrdLessThan, opFOrdLessThanEqual = 180, 183, 184, 188

	opShiftRightLogical, opShiftRightArithmetic, opShiftLeftLogical = 194, 195, 196
	opBitwiseOr, opBitwiseXor, opBitwiseAnd, opNot                  = 197, 198, 199, 200

	opControlBarrier, opLoopMerge, opSelectionMerge, opLabel, opBranch = 224, 246, 247, 248, 249
	opBranchConditional, opReturn                                      = 250, 253
)

// These are instructions of GLSL.std.450.
const glslRoundEven, glslTrunc, glslFloor, glslCeil, glslSqrt, glslFma = 2, 3, 8, 9, 31, 50

// These are capabilities, execution modes, storage classes, decorations and built-in variables. Their names are shorter
// than the names in the specification: cap16Bit is StorageBuffer16BitAccess, and capAddresses is
// PhysicalStorageBufferAddresses.
const (
	capShader, capFloat64, capInt64                                                   = 1, 10, 11
	cap16Bit, cap8Bit, capAddresses                                                   = 4433, 4448, 5347
	capDenormPreserve, capSignedZeroInfNan, capRoundingRTE                            = 4464, 4466, 4467
	modeLocalSize, modeDenormPreserve, modeSignedZeroInfNan, modeRoundingRTE          = 17, 4459, 4461, 4462
	classInput, classWorkgroup, classPrivate, classFunction, classPush, classPhysical = 1, 4, 6, 7, 9, 5349

	decorationBlock, decorationBuiltIn, decorationOffset, decorationNoContraction = 2, 11, 35, 42

	builtInNumWorkgroups, builtInWorkgroupID, builtInLocalIndex = 24, 26, 29
)

// module has the words of each section of a module under construction.
type module struct {
	lastID                                  uint32 // the last id that was assigned
	capabilities, decorations, declarations []uint32
	variables, body                         []uint32          // the local variables and the instructions of the function
	globalIDs                               []uint32          // ids of the global variables
	idByKey                                 map[string]uint32 // the ids of types, constants and tables, by key: see idOf
}

// id returns a new id.
func (m *module) id() uint32 {
	m.lastID++
	return m.lastID
}

// emit appends an instruction to a section. The first word of an instruction has the number of its words and the
// opcode. operands are the other words.
func emit(section *[]uint32, op uint32, operands ...uint32) {
	*section = append(append(*section, uint32(len(operands)+1)<<16|op), operands...)
}

// declare returns the id of a type, and declares the type if necessary. words are the operands of op after the id.
func (m *module) declare(op uint32, words ...uint32) uint32 {
	return m.idOf(fmt.Sprint(op, words), func(id uint32) { emit(&m.declarations, op, append([]uint32{id}, words...)...) })
}

// constant returns the id of a constant, and declares the constant if necessary. words are the operands of op after the
// id.
func (m *module) constant(op, typeID uint32, words ...uint32) uint32 {
	return m.idOf(fmt.Sprint(op, typeID, words), func(id uint32) {
		emit(&m.declarations, op, append([]uint32{typeID, id}, words...)...)
	})
}

// idOf returns the id of a key. For a new key, it assigns an id and calls define, which adds the instruction that
// defines the id.
func (m *module) idOf(key string, define func(id uint32)) uint32 {
	if id, ok := m.idByKey[key]; ok {
		return id
	}
	id := m.id()
	m.idByKey[key] = id
	define(id)
	return id
}

// requireCapability declares that the module needs a capability of the device.
func (m *module) requireCapability(capability uint32) {
	m.idOf(fmt.Sprint("capability", capability), func(uint32) { emit(&m.capabilities, opCapability, capability) })
}

// variable declares a global variable of a storage class, and returns its id. initial is empty or the id of the initial
// value.
func (m *module) variable(typeID, storageClass uint32, initial ...uint32) uint32 {
	pointer := m.declare(opTypePointer, storageClass, typeID)
	id := m.id()
	emit(&m.declarations, opVariable, append([]uint32{pointer, id, storageClass}, initial...)...)
	m.globalIDs = append(m.globalIDs, id)
	return id
}

// emitResult adds an instruction with a result to the function, and returns the id of the result. words are the
// operands after the ids of the result's type and of the result.
func (m *module) emitResult(op, typeID uint32, words ...uint32) uint32 {
	id := m.id()
	emit(&m.body, op, append([]uint32{typeID, id}, words...)...)
	return id
}

// text returns the words of a string: its bytes, followed by one to four zero bytes. The first byte of a word is in the
// low bits.
func text(s string) []uint32 {
	words := make([]uint32, len(s)/4+1)
	for i := range len(s) {
		words[i/4] |= uint32(s[i]) << (8 * (i % 4))
	}
	return words
}
