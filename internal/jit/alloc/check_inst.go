package alloc

import (
	"errors"
	"fmt"
)

// This file checks one allocated instruction: its operands hold the values that the instruction on virtual registers
// reads, and its registers do not conflict. For example, v3 = Add v1, v2 may become Add r5, r6, r5 if register 5 holds
// v1 and register 6 holds v2. Register 5 holds v3 afterwards. Values with equal contents, such as the results of equal
// loads, have the same canonical value, and are compared by it. The operands of an allocated instruction are its
// sources, its temporaries, its mask if it has one, and its destination.

// checkPlain checks an allocated instruction of kind [Plain]. It must be c.inst, the current instruction of the list,
// and its operands must hold the values of c.inst's sources.
func (c *checker) checkPlain(allocated *Allocated) error {
	inst := c.inst
	count := len(allocated.Args) - 1
	if want := c.operandCount(inst); count != want {
		return fmt.Errorf("the instruction has %d operands instead of %d", count, want)
	}
	checkOperands := c.checkNamed
	if inst.Forms != nil {
		checkOperands = c.checkForms
	}
	if err := checkOperands(allocated); err != nil {
		return err
	}
	return c.checkResults(allocated)
}

// checkNamed checks the name and the sources of an instruction without Forms. If it is commutative, the foldable source
// (the one that may be in memory) and the next source may be exchanged.
func (c *checker) checkNamed(allocated *Allocated) error {
	inst, foldable := c.inst, int(c.inst.FoldableSource)
	if allocated.Name != inst.Name || allocated.NonTemporal != inst.NonTemporal {
		return fmt.Errorf("the name is %q instead of %q", allocated.Name, inst.Name)
	}
	err := c.checkSources(allocated, inst.Src, foldable, inst.Tied)
	if err != nil && inst.Commutative && foldable >= 0 {
		src := append([]Arg(nil), inst.Src...)
		src[foldable], src[foldable+1] = src[foldable+1], src[foldable]
		return c.checkSources(allocated, src, foldable, inst.Tied)
	}
	return err
}

// checkForms checks that an instruction is one of its Forms, with the sources in the order of the form. Several forms
// may have the same name and differ in their order, so all of them are tried.
func (c *checker) checkForms(allocated *Allocated) error {
	inst := c.inst
	err := errors.New("no form has this name")
	for k := 0; k < len(inst.Forms) && err != nil; k++ {
		if form := &inst.Forms[k]; form.Name == allocated.Name {
			src := []Arg{inst.Src[form.Order[0]], inst.Src[form.Order[1]]}
			memorySource := min(0, int(inst.FoldableSource)) // 0, or -1 if FoldableSource is -1
			err = c.checkSources(allocated, src, memorySource, inst.Src[form.Tied].Virt)
		}
	}
	return err
}

// operandCount returns the number of operands of an instruction without its destination.
func (c *checker) operandCount(inst *Inst) int {
	count := len(inst.Src)
	if inst.Forms != nil { // the third source is the destination
		count = 2
	}
	for _, temporaries := range inst.TempCounts {
		count += int(temporaries)
	}
	if inst.Mask != 0 {
		count++
	}
	return count
}

// checkSources checks the sources of an instruction. Only the source with index memorySource may be a memory operand,
// and none if the index is negative. tied is the value that the destination must hold.
func (c *checker) checkSources(allocated *Allocated, src []Arg, memorySource int, tied Virt) error {
	for k, source := range src {
		if err := c.checkSource(&allocated.Args[k], source, k == memorySource); err != nil {
			return fmt.Errorf("source %d: %w", k, err)
		}
	}
	if c.inst.Mask != 0 {
		mask := &allocated.Args[len(allocated.Args)-2]
		const inMemoryAllowed = false // a mask is always in a register
		if err := c.checkSource(mask, Arg{Virt: c.inst.Mask}, inMemoryAllowed); err != nil {
			return fmt.Errorf("the mask: %w", err)
		}
		if mask.ZeroMasking != c.inst.ZeroMasking {
			return errors.New("the mask has another zeroing flag than in the list")
		}
	}
	if tied != 0 && tied != c.inst.Dst { // if they are equal, the accumulator overwrites itself
		if virt, err := c.contents(&allocated.Args[len(allocated.Args)-1]); err != nil || virt != c.canonical[tied] {
			return fmt.Errorf("the destination has value %d instead of value %d", virt, tied)
		}
	}
	return nil
}

// checkSource checks an operand that must be the given source. It may be in memory only if inMemoryAllowed is true.
func (c *checker) checkSource(operand *Operand, source Arg, inMemoryAllowed bool) error {
	if source.Virt == 0 {
		if operand.Kind != Immediate || operand.Imm != source.Imm {
			return errors.New("the immediate differs from the list's")
		}
		return nil
	}
	value := &c.values[source.Virt]
	if operand.Kind == Memory || operand.Kind == Element {
		return c.checkMemoryOperand(operand, source, inMemoryAllowed)
	}
	isAccumulator := operand.Kind == Accumulator
	if isAccumulator != (value.Acc != nil) || operand.Kind == Immediate {
		return errors.New("the operand has another kind than in the list")
	}
	bytes := source.Bytes
	if bytes == 0 {
		bytes = value.Bytes
	}
	virt, err := c.contents(operand)
	switch {
	case err != nil:
		return err
	case virt != c.canonical[source.Virt]:
		return fmt.Errorf("register %d has value %d instead of value %d", operand.Reg, virt, source.Virt)
	case operand.Class != value.Class || operand.Bytes != bytes:
		return errors.New("the register has another class or width than its value")
	}
	return nil
}

// checkMemoryOperand checks a memory operand that must be the given source. An operand of kind Element is one element
// in memory, which the instruction broadcasts.
func (c *checker) checkMemoryOperand(operand *Operand, source Arg, inMemoryAllowed bool) error {
	reload, isElement := c.values[source.Virt].Reload, operand.Kind == Element
	switch {
	case !inMemoryAllowed || !c.registerFile.FoldLoads || source.Bytes != 0: // Bytes is set for a part of a register
		return errors.New("the operand must not be in memory")
	case operand.Mem.Space == Slot:
		if virt, err := c.contents(operand); err != nil || virt != c.canonical[source.Virt] {
			return fmt.Errorf("the slot has value %d instead of value %d", virt, source.Virt)
		}
		return nil
	case reload == nil || *operand.Mem != reload.Mem || !reload.Foldable:
		return fmt.Errorf("value %d is not at %+v", source.Virt, *operand.Mem)
	case isElement != (reload.BroadcastBytes != 0) || isElement && reload.BroadcastBytes != c.inst.BroadcastBytes:
		return errors.New("the load and the instruction broadcast elements of different sizes")
	case c.policy.Masked && operand.Mem.Space.advancesPerIteration(): // the access may exceed the end of the row
		return errors.New("memory is accessed without a mask")
	}
	return c.checkNotOverwritten(operand.Mem)
}

// checkResults checks the temporaries and the destination of an instruction, and records its effect.
func (c *checker) checkResults(allocated *Allocated) error {
	inst, dst := c.inst, &allocated.Args[len(allocated.Args)-1]
	if inst.Store != nil {
		if dst.Kind != Memory || *dst.Mem != *inst.Store {
			return errors.New("the store has another destination")
		}
		c.stores = append(c.stores, *dst.Mem)
		return nil
	}
	if err := c.checkTemporaries(allocated); err != nil {
		return err
	}
	if inst.writesEarly() && dst.Kind == Register {
		if err := checkDistinct(dst, allocated.Args[:len(inst.Src)]...); err != nil {
			return err
		}
	}
	acc := c.values[inst.Dst].Acc
	if (acc != nil) != (dst.Kind == Accumulator) || acc != nil && keyOf(acc) != keyOf(dst.Acc) {
		return errors.New("the destination is not the accumulator of the list's instruction")
	}
	registers := &c.registers[c.values[inst.Dst].Class]
	for reg, virt := range registers {
		if virt == c.canonical[inst.Dst] { // a copy of the old value, which is stale after the instruction
			registers[reg] = 0
		}
	}
	return c.set(dst, inst.Dst)
}

// checkTemporaries checks the temporary registers of an instruction, and records that it overwrites them.
func (c *checker) checkTemporaries(allocated *Allocated) error {
	arg := len(c.inst.Src) // index of the current temporary in allocated.Args
	for class, count := range c.inst.TempCounts {
		for range count {
			temporary, dst := &allocated.Args[arg], allocated.Args[len(allocated.Args)-1]
			if temporary.Kind != Register || int(temporary.Class) != class {
				return errors.New("a temporary is not a register of its class")
			}
			if err := checkDistinct(temporary, append(allocated.Args[:arg:arg], dst)...); err != nil {
				return err
			}
			if err := c.set(temporary, 0); err != nil {
				return err
			}
			arg++
		}
	}
	return nil
}

// checkDistinct returns an error if the operand reg is a register that is also one of the other operands.
func checkDistinct(reg *Operand, others ...Operand) error {
	for _, other := range others {
		if other.Kind == Register && reg.Kind == Register && other.Class == reg.Class && other.Reg == reg.Reg {
			return fmt.Errorf("register %d is also another operand", reg.Reg)
		}
	}
	return nil
}
