package alloc

import (
	"errors"
	"fmt"
)

// checkPlain checks an allocated instruction of kind [Plain]. It must be c.inst, the current instruction of the list,
// and its operands must hold the values of c.inst's sources.
func (c *checker) checkPlain(o *Out) error {
	in := c.inst
	n := len(o.Args) - 1
	if want := c.operands(in); n != want {
		return fmt.Errorf("%d operands instead of %d", n, want)
	}
	var err error
	if in.Forms == nil {
		if o.Name != in.Name || o.NonTemporal != in.NonTemporal {
			return errors.New("the name differs")
		}
		err = c.sources(o, in.Src, int(in.Fold), in.Tied)
		if err != nil && in.Commutative && in.Fold >= 0 {
			src := append([]Arg(nil), in.Src...)
			src[in.Fold], src[in.Fold+1] = src[in.Fold+1], src[in.Fold]
			err = c.sources(o, src, int(in.Fold), in.Tied)
		}
	} else {
		err = errors.New("no form has this name")
		for k := 0; k < len(in.Forms) && err != nil; k++ {
			if f := &in.Forms[k]; f.Name == o.Name {
				src := []Arg{in.Src[f.Order[0]], in.Src[f.Order[1]]}
				err = c.sources(o, src, min(0, int(in.Fold)), in.Src[f.Tied].Virt)
			}
		}
	}
	if err != nil {
		return err
	}
	return c.results(o)
}

// operands returns the number of operands of an instruction without its destination.
func (c *checker) operands(in *Inst) int {
	n := len(in.Src)
	if in.Forms != nil {
		n = 2
	}
	for _, t := range in.Temps {
		n += int(t)
	}
	if in.TempSlot {
		n++
	}
	if in.Mask != 0 {
		n++
	}
	return n
}

// sources checks the sources of an instruction. Only the source with index memorySource may be a memory operand, and
// none if the index is negative. tied is the value that the destination must hold.
func (c *checker) sources(o *Out, src []Arg, memorySource int, tied Virt) error {
	for k, s := range src {
		if err := c.source(&o.Args[k], s, k == memorySource); err != nil {
			return fmt.Errorf("source %d: %w", k, err)
		}
	}
	if c.inst.Mask != 0 {
		mask := &o.Args[len(o.Args)-2]
		if err := c.source(mask, Arg{Virt: c.inst.Mask}, false); err != nil {
			return fmt.Errorf("the mask: %w", err)
		}
		if mask.Zero != c.inst.Zero {
			return errors.New("zeroing by the mask differs")
		}
	}
	if tied != 0 && tied != c.inst.Dst {
		if v, err := c.contents(&o.Args[len(o.Args)-1]); err != nil || v != c.canonical[tied] {
			return fmt.Errorf("the destination has value %d instead of value %d", v, tied)
		}
	}
	return nil
}

// source checks an operand that must be source s.
func (c *checker) source(o *Operand, s Arg, inMemoryAllowed bool) error {
	if s.Virt == 0 {
		if o.Kind != Immediate || o.Imm != s.Imm {
			return errors.New("the immediate differs")
		}
		return nil
	}
	x := &c.values[s.Virt]
	if o.Kind == Memory || o.Kind == Element {
		return c.memoryOperand(o, s, inMemoryAllowed)
	}
	if (x.Acc != nil) != (o.Kind == Accumulator) || o.Kind == Immediate {
		return errors.New("the kind of operand differs")
	}
	bytes := s.Bytes
	if bytes == 0 {
		bytes = x.Bytes
	}
	v, err := c.contents(o)
	switch {
	case err != nil:
		return err
	case v != c.canonical[s.Virt]:
		return fmt.Errorf("register %d has value %d instead of value %d", o.Reg, v, s.Virt)
	case o.Class != x.Class || o.Bytes != bytes:
		return errors.New("the class or width differs")
	}
	return nil
}

// memoryOperand checks a memory operand that must be source s.
func (c *checker) memoryOperand(o *Operand, s Arg, inMemoryAllowed bool) error {
	reload, element := c.values[s.Virt].Reload, o.Kind == Element
	switch {
	case !inMemoryAllowed || !c.registerFile.FoldLoads || s.Bytes != 0:
		return errors.New("the operand must not be in memory")
	case o.Mem.Space == Slot:
		if v, err := c.contents(o); err != nil || v != c.canonical[s.Virt] {
			return fmt.Errorf("the slot has value %d instead of value %d", v, s.Virt)
		}
		return nil
	case reload == nil || *o.Mem != reload.Mem || !reload.Foldable:
		return fmt.Errorf("value %d is not at %+v", s.Virt, *o.Mem)
	case element != (reload.Lane != 0) || element && reload.Lane != c.inst.Lane:
		return errors.New("the size of the broadcast element differs")
	case c.policy.Masked && o.Mem.Space.advancesPerIteration():
		return errors.New("memory is accessed without a mask")
	}
	return c.checkNotOverwritten(o.Mem)
}

// results checks the temporaries and the destination of an instruction, and records its effect.
func (c *checker) results(o *Out) error {
	in, dst := c.inst, &o.Args[len(o.Args)-1]
	if in.Store != nil {
		if dst.Kind != Memory || *dst.Mem != *in.Store {
			return errors.New("the store has another destination")
		}
		c.stores = append(c.stores, *dst.Mem)
		return nil
	}
	if err := c.temporaries(o); err != nil {
		return err
	}
	if (in.Early || in.Temps != [numClasses]uint8{}) && dst.Kind == Register {
		if err := checkDistinct(dst, o.Args[:len(in.Src)]...); err != nil {
			return err
		}
	}
	acc := c.values[in.Dst].Acc
	if (acc != nil) != (dst.Kind == Accumulator) || acc != nil && keyOf(acc) != keyOf(dst.Acc) {
		return errors.New("the destination differs")
	}
	for r, v := range c.registers[c.values[in.Dst].Class] {
		if v == c.canonical[in.Dst] { // holds the accumulator's old value, which the instruction replaces
			c.registers[c.values[in.Dst].Class][r] = 0
		}
	}
	return c.set(dst, in.Dst)
}

// temporaries checks the temporary registers and the temporary slot of an instruction, which overwrites them.
func (c *checker) temporaries(o *Out) error {
	arg := len(c.inst.Src)
	for class, n := range c.inst.Temps {
		for range n {
			t := &o.Args[arg]
			if t.Kind != Register || int(t.Class) != class {
				return errors.New("the class of a temporary differs")
			}
			if err := checkDistinct(t, append(o.Args[:arg:arg], o.Args[len(o.Args)-1])...); err != nil {
				return err
			}
			if err := c.set(t, 0); err != nil {
				return err
			}
			arg++
		}
	}
	if c.inst.TempSlot {
		if m := o.Args[arg].Mem; m == nil || m.Space != Slot || m.Index >= len(c.slots) {
			return errors.New("no temporary slot")
		}
		c.slots[o.Args[arg].Mem.Index] = 0
	}
	return nil
}

// checkDistinct returns an error if a register is also another operand.
func checkDistinct(r *Operand, others ...Operand) error {
	for _, o := range others {
		if o.Kind == Register && r.Kind == Register && o.Class == r.Class && o.Reg == r.Reg {
			return fmt.Errorf("register %d is also another operand", r.Reg)
		}
	}
	return nil
}
