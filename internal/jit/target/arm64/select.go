package arm64

import (
	"encoding/binary"
	"strings"

	"github.com/graphrun/graphrun/internal/jit/alloc"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/lane"
)

// vectorBytes is the number of bytes of a vector register.
const vectorBytes = 16

// selector translates the lane operations of a loop to instructions on virtual registers (alloc.Virt), to which package
// alloc assigns registers. A value with more lanes than a register has several parts, one for each register. For
// example, with 8 lanes, a float32 sum has two parts, and becomes two instructions: "fadd 4s" for lanes 0 to 3 and for
// lanes 4 to 7.
//
// In the methods, size is the size of a lane in bytes, i or p the index of a part, and shape an arrangement, such as
// "4s". Row constants are values that are computed once per row. They are in Builder.Row.
type selector struct {
	alloc.Builder
	loop        *lane.Loop
	constants   map[string]alloc.Virt    // by contents
	rowElements map[alloc.Mem]alloc.Virt // elements of row operands
	rowResults  map[instKey]alloc.Virt   // results of instructions on row constants

	// State of the selection for a number of lanes. Lists has the number of lanes, the instructions and the parts of
	// values. While instructions are selected, they are in Builder.Body, and then in Lists.Body.
	*Lists
	resultIsUniform   bool                        // the current result is the same for all lanes; see partCount
	complexComponents map[int16][2][]alloc.Virt   // by pointer: the real and the imaginary numbers of the elements
	equalities        map[lane.Value][]alloc.Virt // by result of Ne: the mask of equality, for selectLanes
	lookups           map[lookupKey][]alloc.Virt  // the results of lookups that are already selected
	byteIndices       map[indexKey][]alloc.Virt   // the results of tableIndices
	err               error                       // the first error
}

func newSelector(loop *lane.Loop) *selector {
	return &selector{loop: loop, constants: map[string]alloc.Virt{}, rowElements: map[alloc.Mem]alloc.Virt{},
		rowResults: map[instKey]alloc.Virt{}}
}

// selectLists selects the instructions of a loop that processes the given number of elements in each iteration.
func (s *selector) selectLists(lanes int) (*Lists, error) {
	s.Lists = &Lists{Lanes: lanes, Parts: make([][]alloc.Virt, len(s.loop.Insts))}
	s.complexComponents, s.equalities = map[int16][2][]alloc.Virt{}, map[lane.Value][]alloc.Virt{}
	s.lookups, s.byteIndices = map[lookupKey][]alloc.Virt{}, map[indexKey][]alloc.Virt{}
	for value := range s.loop.Insts {
		inst := &s.loop.Insts[value]
		if inst.Op == lane.Store {
			s.resultIsUniform = false
			s.store(inst)
			continue
		}
		s.resultIsUniform = s.loop.Uniform(lane.Value(value))
		s.Parts[value] = s.selectInst(lane.Value(value), inst)
	}
	s.Lists.Body, s.Builder.Body = s.usedBody(), nil
	return s.Lists, s.err
}

// selectInst selects instructions for one value and returns its parts.
func (s *selector) selectInst(v lane.Value, inst *lane.Inst) []alloc.Virt {
	switch inst.Op {
	case lane.Const:
		if inst.Type.Mask != 0 { // true is 1 in Imm, and all ones in a mask
			return []alloc.Virt{s.constant(inst.Type.Size(), -inst.Imm)}
		}
		return []alloc.Virt{s.constant(inst.Type.Size(), inst.Imm)}
	case lane.Load:
		return s.load(inst)
	case lane.Convert:
		return s.convert(inst)
	case lane.Bits: // the same registers
		return s.Parts[inst.A]
	case lane.Remask:
		return s.remask(s.Parts[inst.A], s.loop.Type(inst.A).Size(), inst.Type.Size())
	case lane.Eq, lane.Ne, lane.Lt, lane.Le:
		return s.compare(v, inst)
	case lane.Lookup:
		return s.lookup(inst)
	}
	return s.makeParts(inst.Type.Size(), func(i int) alloc.Virt {
		switch inst.Op {
		case lane.Select:
			return s.selectLanes(inst, i)
		case lane.FMA:
			return s.fma(inst, i)
		}
		a, b := s.part(inst.A, i), alloc.Virt(0)
		if inst.B != lane.None {
			b = s.part(inst.B, i)
		}
		return s.apply(inst.Op, inst.Type, a, b)
	})
}

// selectLanes selects instructions for lane.Select. If the mask is an inequality, the code selects by the equality and
// exchanges the values, which saves the negation.
func (s *selector) selectLanes(inst *lane.Inst, i int) alloc.Virt {
	mask, ifSet, ifClear := inst.A, s.part(inst.B, i), s.part(inst.C, i)
	if equality := s.equalities[mask]; equality != nil {
		return s.selectBits(equality[min(i, len(equality)-1)], ifClear, ifSet)
	}
	return s.selectBits(s.part(mask, i), ifSet, ifClear)
}

// apply selects instructions for an operation on vectors of a type. b is 0 if the operation has one operand.
func (s *selector) apply(op lane.Op, laneType lane.Type, a, b alloc.Virt) alloc.Virt {
	switch {
	case laneType.Mask != 0:
		return s.maskOp(op, a, b)
	case laneType.DType.IsFloat():
		return s.floatOp(op, laneType.Size(), a, b)
	}
	return s.integerOp(op, laneType.DType, a, b)
}

// applyAll selects instructions for an operation on values of equal numbers of parts (registers), and returns the parts
// of the result.
func (s *selector) applyAll(op lane.Op, laneType lane.Type, operands ...[]alloc.Virt) []alloc.Virt {
	result := make([]alloc.Virt, len(operands[0]))
	for i := range result {
		b := alloc.Virt(0)
		if len(operands) > 1 {
			b = operands[1][i]
		}
		result[i] = s.apply(op, laneType, operands[0][i], b)
	}
	return result
}

// usedBody returns the body without instructions whose results are unused.
func (s *selector) usedBody() []alloc.Inst {
	live := make([]bool, len(s.Values))
	mark := func(inst *alloc.Inst) {
		for _, source := range inst.Src {
			live[source.Virt] = true
		}
		live[inst.Tied] = true
	}
	for k := range s.Stores {
		mark(&s.Stores[k])
	}
	for _, fold := range s.loop.Folds {
		for _, virt := range s.Parts[fold.Value] {
			live[virt] = true
		}
	}
	// From the last instruction to the first, the used ones are moved to the end of the body.
	body := s.Builder.Body
	first := len(body)
	for k := first - 1; k >= 0; k-- {
		if inst := &body[k]; live[inst.Dst] {
			mark(inst)
			first--
			body[first] = *inst
		}
	}
	return body[first:]
}

// fail records the first error.
func (s *selector) fail(format string, args ...any) {
	if s.err == nil {
		s.err = target.Unsupported(format, args...)
	}
}

// partCount returns the number of registers for the lanes of the current result, if a lane has the given size in bytes.
func (s *selector) partCount(size int) int {
	if s.resultIsUniform {
		return 1
	}
	return max(1, s.Lanes*size/vectorBytes)
}

// part returns part i of a value. All parts of a uniform value are the same register.
func (s *selector) part(v lane.Value, i int) alloc.Virt {
	parts := s.Parts[v]
	return parts[min(i, len(parts)-1)]
}

// makeParts returns the parts of the current result, whose lanes have the given size in bytes. It calls part for each
// index. Inlining is off, as for bitwise: it would only enlarge the many callers.
//
//go:noinline
func (s *selector) makeParts(size int, part func(i int) alloc.Virt) []alloc.Virt {
	parts := make([]alloc.Virt, s.partCount(size))
	for i := range parts {
		parts[i] = part(i)
	}
	return parts
}

// add adds an instruction whose result is a new vector, and returns the result. If all its sources are row constants,
// and an equal instruction was added before, add returns the result of that instruction.
func (s *selector) add(inst alloc.Inst) alloc.Virt {
	inst.FoldableSource = noFoldableSource
	key, isRowConstant := s.rowConstantKey(&inst)
	if !isRowConstant {
		inst.Dst = s.New(alloc.Value{Bytes: vectorBytes})
		return s.Add(inst)
	}
	if v, ok := s.rowResults[key]; ok {
		return v
	}
	inst.Dst = s.New(alloc.Value{Bytes: vectorBytes})
	s.rowResults[key] = inst.Dst
	return s.Add(inst)
}

// instKey identifies an instruction with up to three sources.
type instKey struct {
	name string
	src  [3]alloc.Arg
	tied alloc.Virt
}

// rowConstantKey returns the key of an instruction. ok is false if a source is not a row constant, or if the
// instruction has too many sources for a key.
func (s *selector) rowConstantKey(inst *alloc.Inst) (key instKey, ok bool) {
	isRowConstant := func(v alloc.Virt) bool { return v == 0 || s.Values[v].Invariant } // 0: an immediate, or none
	if len(inst.Src) > len(key.src) || !isRowConstant(inst.Tied) {
		return key, false
	}
	key.name, key.tied = inst.Name, inst.Tied
	for k, source := range inst.Src {
		if !isRowConstant(source.Virt) {
			return key, false
		}
		key.src[k] = source
	}
	return key, true
}

// op adds an operation on vectors. arrangement is the kind of all operands, such as "4s", or has several kinds, with
// the kind of the result first, such as "2d 4s".
func (s *selector) op(mnemonic, arrangement string, src ...alloc.Virt) alloc.Virt {
	return s.add(alloc.Inst{Name: mnemonic + " " + arrangement, Src: alloc.Sources(src...)})
}

// bitwise adds a bitwise operation on whole registers.
//
//go:noinline
func (s *selector) bitwise(mnemonic string, src ...alloc.Virt) alloc.Virt {
	return s.op(mnemonic, "16b", src...)
}

// immediateOp adds an operation on a vector and an immediate. arrangement is the common arrangement of the result and
// of x, or both arrangements, separated by a space.
func (s *selector) immediateOp(mnemonic, arrangement string, x alloc.Virt, imm int64) alloc.Virt {
	if !strings.Contains(arrangement, " ") {
		arrangement += " " + arrangement
	}
	return s.add(alloc.Inst{Name: mnemonic + " " + arrangement + " #", Src: []alloc.Arg{{Virt: x}, {Imm: imm}}})
}

// tiedOp adds an operation that reads old and the sources, and overwrites the register of old with its result.
func (s *selector) tiedOp(mnemonic, arrangement string, old alloc.Virt, src ...alloc.Virt) alloc.Virt {
	return s.add(alloc.Inst{Name: mnemonic + " " + arrangement, Src: alloc.Sources(src...), Tied: old})
}

// arrangement returns Arm's name for the division of the 16 bytes of a register into elements of the given size.
func arrangement(size int) string { return [...]string{1: "16b", 2: "8h", 4: "4s", 8: "2d"}[size] }

// halfArrangement returns the name for the division of the low 8 bytes.
func halfArrangement(size int) string { return [...]string{1: "8b", 2: "4h", 4: "2s"}[size] }

// selectBits returns the bits of ifSet where the bits of mask are set, and the bits of ifClear elsewhere.
func (s *selector) selectBits(mask, ifSet, ifClear alloc.Virt) alloc.Virt {
	// If one choice is a vector of zeros, an operation that overwrites no operand suffices.
	switch zeros := s.constants[string(make([]byte, vectorBytes))]; {
	case zeros == 0: // no register: the loop does not use a vector of zeros
	case ifClear == zeros:
		return s.bitwise("and", ifSet, mask)
	case ifSet == zeros:
		return s.bitwise("bic", ifClear, mask)
	}
	return s.add(alloc.Inst{Name: "bsl", Src: alloc.Sources(mask, ifSet, ifClear), Forms: selectForms})
}

// selectForms are the instructions for a selection between bits. The sources are the mask (0), ifSet (1) and ifClear
// (2). Each form overwrites the source Tied, and reads the sources Order. The allocator chooses a form whose source
// Tied is not needed afterwards, if possible.
var selectForms = []alloc.Form{
	{Name: "bsl 16b", Tied: 0, Order: [2]int8{1, 2}},
	{Name: "bit 16b", Tied: 2, Order: [2]int8{1, 0}},
	{Name: "bif 16b", Tied: 1, Order: [2]int8{2, 0}},
}

// constant returns a vector whose lanes of the given size all have the given bits.
func (s *selector) constant(size int, bits uint64) alloc.Virt {
	lane := binary.LittleEndian.AppendUint64(nil, bits)[:size]
	return s.constantBytes(strings.Repeat(string(lane), vectorBytes/size))
}

// constantBytes returns a vector of 16 constant bytes.
func (s *selector) constantBytes(data string) alloc.Virt {
	vector, ok := s.constants[data]
	if !ok {
		vector = s.New(alloc.Value{Bytes: vectorBytes, Invariant: true, Constant: true,
			Reload: &alloc.Reload{Name: "ldr", Mem: alloc.Mem{Space: alloc.Constant, Data: data}}})
		s.constants[data] = vector
	}
	return vector
}
