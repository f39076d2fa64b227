package alloc

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Verify makes [Run] check each result with [Check] and panic if the check fails. Tests set it.
var Verify bool

// Check tests the result of [Run], independently of the allocator. It simulates which value each register, slot and
// accumulator holds, and returns an error if the result is wrong. A slot is a place in memory for a spilled value. For
// example, after a Save of register 3 to slot 0, slot 0 holds the value of register 3, until another value is saved to
// the slot. Check requires that
//
//   - each instruction of the list occurs once, in order, and its operands have the right values: its sources, its
//     mask, and its tied source, whose register the result overwrites;
//   - temporaries and destinations differ from other operands where they must;
//   - memory is not read after a store that may have changed it (outputs may share memory with operands);
//   - permanent registers and slots, which each keep one value during the whole loop, have their values after the list.
//     They also have their values before the list, unless the list computes these values (policy.OncePerRow). In this
//     case, only constants are in their registers before the list.
func Check(values []Value, registerFile *RegisterFile, list []Inst, policy Policy, result *Result) error {
	state := newChecker(len(values), result.Slots)
	defer checkers.Put(state)
	state.values, state.registerFile, state.policy = values, registerFile, policy
	state.setInitialState()
	next := 0 // index in the list of the next instruction
	for k := range result.Insts {
		allocated := &result.Insts[k]
		if allocated.From >= 0 {
			if int(allocated.From) != next || next == len(list) {
				return fmt.Errorf("instruction %d of the list follows instruction %d", allocated.From, next-1)
			}
			next++
			state.inst = &list[allocated.From]
		}
		if err := state.check(allocated); err != nil {
			return fmt.Errorf("result instruction %d of %d (%s, from instruction %d of the list): %w", k, len(result.Insts),
				allocated.Name, allocated.From, err)
		}
	}
	if next != len(list) {
		return fmt.Errorf("instruction %d of the list is missing", next)
	}
	return state.checkFinalState()
}

// checker is the state of Check. Values with the same contents, such as the results of equal loads, have the same
// canonical value: the first of these values. Registers, slots and accumulators are compared by canonical values.
type checker struct {
	values       []Value
	registerFile *RegisterFile
	policy       Policy
	inst         *Inst // the current instruction of the list

	canonical   []Virt               // by Virt (the number of a value, from 1): its canonical value
	loads       map[loadKey]Virt     // the canonical value of the result of a load
	initialAccs map[accKey]Virt      // the canonical value that an accumulator has before the list
	writable    [numClasses]uint32   // by class: bit set of the registers that instructions may write
	registers   [numClasses][32]Virt // by class and register: the canonical value in the register, or 0
	slots       []Virt               // by slot: the canonical value in the slot, or 0
	changedAccs map[accKey]Virt      // by accumulator: the value in its register, if an instruction has written it
	stores      []Mem                // destinations of the stores so far
}

// checkers is a pool of checkers whose memory is reused.
var checkers = sync.Pool{New: func() any {
	return &checker{loads: map[loadKey]Virt{}, initialAccs: map[accKey]Virt{}, changedAccs: map[accKey]Virt{}}
}}

// newChecker returns an empty checker for the given numbers of values and slots.
func newChecker(values, slots int) *checker {
	c := checkers.Get().(*checker)
	clear(c.loads)
	clear(c.initialAccs)
	clear(c.changedAccs)
	canonical, slotValues := slices.Grow(c.canonical[:0], values)[:values], slices.Grow(c.slots[:0], slots)[:slots]
	clear(canonical)
	clear(slotValues)
	*c = checker{canonical: canonical, loads: c.loads, initialAccs: c.initialAccs, changedAccs: c.changedAccs,
		slots: slotValues, stores: c.stores[:0]}
	return c
}

// loadKey identifies the contents of a loaded register.
type loadKey struct {
	name  string
	mem   Mem
	bytes uint8
}

// accKey identifies the register of an accumulator: the fields Index and Iteration of Acc.
type accKey struct{ index, iteration int }

func keyOf(acc *Acc) accKey { return accKey{acc.Index, acc.Iteration} }

// setInitialState sets the state before the list.
func (c *checker) setInitialState() {
	c.writable = c.registerFile.Pool // registers that the allocator may assign; the code below adds permanent registers
	for virt := range c.values {
		value, register := &c.values[virt], c.registerFile.Permanent[virt]
		switch {
		case value.Acc != nil:
			c.canonical[virt] = getOrAdd(c.initialAccs, keyOf(value.Acc), Virt(virt))
		case value.Reload != nil:
			c.canonical[virt] = getOrAdd(c.loads, loadKey{value.Reload.Name, value.Reload.Mem, value.Bytes}, Virt(virt))
		default:
			c.canonical[virt] = Virt(virt)
		}
		if register >= 0 && value.Acc == nil {
			c.writable[value.Class] |= 1 << register
			isLoadedConstant := value.Constant && value.Reload != nil // loaded once per call, before all rows
			if !c.policy.OncePerRow || isLoadedConstant {
				c.registers[value.Class][register] = c.canonical[virt]
			}
		}
		if slot := c.registerFile.PermanentSlot[virt]; slot >= 0 && !c.policy.OncePerRow {
			c.slots[slot] = c.canonical[virt]
		}
	}
}

// getOrAdd returns known[key]. If the key is missing, it first sets known[key] to virt.
func getOrAdd[K comparable](known map[K]Virt, key K, virt Virt) Virt {
	if old, ok := known[key]; ok {
		return old
	}
	known[key] = virt
	return virt
}

// checkFinalState checks the state after the list.
func (c *checker) checkFinalState() error {
	for virt := range c.values {
		value := &c.values[virt]
		register := c.registerFile.Permanent[virt]
		isPermanent := register >= 0 && value.Acc == nil
		if isPermanent && c.registers[value.Class][register] != c.canonical[virt] {
			return fmt.Errorf("value %d is not in its register %d after the list", virt, register)
		}
		if slot := c.registerFile.PermanentSlot[virt]; slot >= 0 && c.slots[slot] != c.canonical[virt] {
			return fmt.Errorf("value %d is not in its slot %d after the list", virt, slot)
		}
	}
	return nil
}

// check checks an instruction of the result and records its effect. If the instruction is from the list, c.inst is the
// instruction of the list.
func (c *checker) check(allocated *Allocated) error {
	if allocated.Kind == Plain {
		return c.checkPlain(allocated)
	}
	from, to := &allocated.Args[0], &allocated.Args[1] // of a Load, Save or Copy
	var virt Virt                                      // the value that is moved
	var err error
	if allocated.Kind == Load {
		virt, err = c.loadedValue(allocated.Name, from.Mem, to)
	} else {
		virt, err = c.contents(from)
	}
	if err != nil {
		return err
	}
	if virt == 0 {
		return errors.New("the source operand holds no value")
	}
	if allocated.From >= 0 { // the instruction replaces a Move of the list
		if c.inst.Name != Move || virt != c.canonical[c.inst.Src[0].Virt] {
			return fmt.Errorf("the instruction moves value %d instead of value %d", virt, c.inst.Src[0].Virt)
		}
		virt = c.inst.Dst
	}
	return c.set(to, virt)
}

// contents returns the value in a register, an accumulator or a slot.
func (c *checker) contents(operand *Operand) (Virt, error) {
	switch {
	case operand.Kind == Register:
		return c.registers[operand.Class][operand.Reg], nil
	case operand.Kind == Accumulator:
		if virt, ok := c.changedAccs[keyOf(operand.Acc)]; ok {
			return virt, nil
		}
		return c.initialAccs[keyOf(operand.Acc)], nil
	case operand.Kind == Memory && operand.Mem.Space == Slot && operand.Mem.Index < len(c.slots):
		return c.slots[operand.Mem.Index], nil
	}
	return 0, errors.New("the operand is not a register, an accumulator or a slot in use")
}

// set records the value in a register, an accumulator or a slot. virt is 0 if the contents are arbitrary.
func (c *checker) set(operand *Operand, virt Virt) error {
	value, canonical := &c.values[virt], c.canonical[virt]
	switch {
	case operand.Kind == Memory && operand.Mem.Space == Slot && operand.Mem.Index < len(c.slots):
		c.slots[operand.Mem.Index] = canonical
		return nil
	case operand.Kind != Register && operand.Kind != Accumulator:
		return errors.New("the destination is not a register")
	case canonical != 0 && (value.Class != operand.Class || value.Bytes != operand.Bytes):
		return fmt.Errorf("value %d is in a register of another class or width", canonical)
	case operand.Kind == Accumulator:
		c.changedAccs[keyOf(operand.Acc)] = canonical
	case c.writable[operand.Class]>>operand.Reg&1 == 0:
		return fmt.Errorf("register %d must not be written", operand.Reg)
	default:
		c.registers[operand.Class][operand.Reg] = canonical
	}
	return nil
}

// loadedValue returns the value that the register `to` has after the load instruction `name` from memory.
func (c *checker) loadedValue(name string, mem *Mem, to *Operand) (Virt, error) {
	if mem.Space == Slot {
		return c.contents(&Operand{Kind: Memory, Mem: mem})
	}
	if err := c.checkNotOverwritten(mem); err != nil {
		return 0, err
	}
	virt, ok := c.loads[loadKey{name, *mem, to.Bytes}]
	if !ok {
		return 0, fmt.Errorf("no value of the list is loaded from %+v by the instruction %q", *mem, name)
	}
	return virt, nil
}

// checkNotOverwritten returns an error if an earlier store may have changed the memory, or if the memory is accessed in
// the wrong list.
func (c *checker) checkNotOverwritten(mem *Mem) error {
	if mem.Space == PerRow && !c.policy.OncePerRow {
		return errors.New("memory of the space PerRow is loaded outside the code that runs once per row")
	}
	for _, stored := range c.stores {
		loaded := *mem
		loaded.Step, stored.Step = 0, 0 // within one iteration, the step has no effect
		if stored.Space == AlongRow {   // elements of an output
			loaded.Index, stored.Index = 0, 0 // outputs may share memory with operands
		}
		if stored == loaded {
			return fmt.Errorf("memory %+v is read after the store to %+v", *mem, stored)
		}
	}
	return nil
}
