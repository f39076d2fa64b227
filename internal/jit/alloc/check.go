package alloc

import (
	"errors"
	"fmt"
)

// Verify makes [Run] check each result with [Check] and panic if the check fails. Tests set it.
var Verify bool

// Check simulates which value each register, slot and accumulator holds. It returns an error unless
//
//   - each instruction of the list occurs once, in order, and finds its sources, its tied source and its mask;
//   - temporaries and destinations differ from other operands where they must;
//   - memory is not read again after a store that may have changed it: outputs may share memory with operands;
//   - permanent registers and slots have their values after the list. They also have them before the
//     list, unless the list computes them (OncePerRow): it then finds only constants.
func Check(values []Value, registerFile *File, list []Inst, policy Policy, r *Result) error {
	c := checker{values: values, registerFile: registerFile, policy: policy, canonical: make([]Virt, len(values)),
		loads:       map[loadKey]Virt{},
		initialAccs: map[accKey]Virt{}, changedAccs: map[accKey]Virt{}, slots: make([]Virt, r.Slots)}
	c.setInitialState()
	next := 0
	for k := range r.Out {
		o := &r.Out[k]
		if o.From >= 0 {
			if int(o.From) != next || next == len(list) {
				return fmt.Errorf("instruction %d follows instruction %d", o.From, next-1)
			}
			next++
			c.inst = &list[o.From]
		}
		if err := c.check(o); err != nil {
			return fmt.Errorf("instruction %d of %d, %s of %d: %w", k, len(r.Out), o.Name, o.From, err)
		}
	}
	if next != len(list) {
		return fmt.Errorf("instruction %d is missing", next)
	}
	return c.checkFinalState()
}

type checker struct {
	values       []Value
	registerFile *File
	policy       Policy
	inst         *Inst // the current instruction of the list

	canonical   []Virt               // by Virt: the canonical value, the first one with the same contents
	loads       map[loadKey]Virt     // the canonical value that a load gives
	initialAccs map[accKey]Virt      // the canonical value of an accumulator
	writable    [numClasses]uint32   // by class: bit set of the registers that instructions may write
	registers   [numClasses][32]Virt // by class and register: the canonical value in the register, or 0
	slots       []Virt               // by slot: the canonical value in the slot, or 0
	changedAccs map[accKey]Virt      // by accumulator: the value in its register, if it differs from the initial value
	stores      []Mem                // memory that was stored
}

// loadKey identifies the contents of a loaded register.
type loadKey struct {
	name  string
	mem   Mem
	bytes uint8
}

// accKey identifies an accumulator.
type accKey struct{ index, iteration int }

func keyOf(a *Acc) accKey { return accKey{a.Index, a.Iteration} }

// setInitialState sets the state before the list.
func (c *checker) setInitialState() {
	c.writable = c.registerFile.Pool
	for v := range c.values {
		x, r := &c.values[v], c.registerFile.Permanent[v]
		switch {
		case x.Acc != nil:
			c.canonical[v] = getOrAdd(c.initialAccs, keyOf(x.Acc), Virt(v))
		case x.Reload != nil:
			c.canonical[v] = getOrAdd(c.loads, loadKey{x.Reload.Name, x.Reload.Mem, x.Bytes}, Virt(v))
		default:
			c.canonical[v] = Virt(v)
		}
		if r >= 0 && x.Acc == nil {
			c.writable[x.Class] |= 1 << r
			if !c.policy.OncePerRow || x.Constant && x.Reload != nil {
				c.registers[x.Class][r] = c.canonical[v]
			}
		}
		if s := c.registerFile.PermanentSlot[v]; s >= 0 && !c.policy.OncePerRow {
			c.slots[s] = c.canonical[v]
		}
	}
}

// getOrAdd returns m[key]. If the key is missing, it first sets m[key] to v.
func getOrAdd[K comparable](m map[K]Virt, key K, v Virt) Virt {
	if old, ok := m[key]; ok {
		return old
	}
	m[key] = v
	return v
}

// checkFinalState checks the state after the list.
func (c *checker) checkFinalState() error {
	for v := range c.values {
		x := &c.values[v]
		if r := c.registerFile.Permanent[v]; r >= 0 && x.Acc == nil && c.registers[x.Class][r] != c.canonical[v] {
			return fmt.Errorf("value %d is not in its register %d after the list", v, r)
		}
		if s := c.registerFile.PermanentSlot[v]; s >= 0 && c.slots[s] != c.canonical[v] {
			return fmt.Errorf("value %d is not in its slot %d after the list", v, s)
		}
	}
	return nil
}

// check checks an instruction and follows its effect.
func (c *checker) check(o *Out) error {
	if o.Kind == Plain {
		return c.checkPlain(o)
	}
	from, to := &o.Args[0], &o.Args[1]
	var v Virt
	var err error
	if o.Kind == Load {
		v, err = c.loadedValue(o.Name, from.Mem, to)
	} else {
		v, err = c.contents(from)
	}
	switch {
	case err != nil:
		return err
	case v == 0:
		return errors.New("the source has no value")
	case o.From >= 0 && (c.inst.Name != Move || v != c.canonical[c.inst.Src[0].Virt]):
		return fmt.Errorf("a move of value %d instead of value %d", v, c.inst.Src[0].Virt)
	case o.From >= 0:
		v = c.inst.Dst
	}
	return c.set(to, v)
}

// contents returns the value in a register, an accumulator or a slot.
func (c *checker) contents(o *Operand) (Virt, error) {
	switch {
	case o.Kind == Register:
		return c.registers[o.Class][o.Reg], nil
	case o.Kind == Accumulator:
		if v, ok := c.changedAccs[keyOf(o.Acc)]; ok {
			return v, nil
		}
		return c.initialAccs[keyOf(o.Acc)], nil
	case o.Kind == Memory && o.Mem.Space == Slot && o.Mem.Index < len(c.slots):
		return c.slots[o.Mem.Index], nil
	}
	return 0, errors.New("the operand has no value")
}

// set sets the value in a register, an accumulator or a slot. v is 0 if the contents are arbitrary.
func (c *checker) set(o *Operand, v Virt) error {
	x := &c.values[v]
	v = c.canonical[v]
	switch {
	case o.Kind == Memory && o.Mem.Space == Slot && o.Mem.Index < len(c.slots):
		c.slots[o.Mem.Index] = v
		return nil
	case o.Kind != Register && o.Kind != Accumulator:
		return errors.New("the destination is not a register")
	case v != 0 && (x.Class != o.Class || x.Bytes != o.Bytes):
		return fmt.Errorf("value %d in a register of another class or width", v)
	case o.Kind == Accumulator:
		c.changedAccs[keyOf(o.Acc)] = v
	case c.writable[o.Class]>>o.Reg&1 == 0:
		return fmt.Errorf("register %d must not be written", o.Reg)
	default:
		c.registers[o.Class][o.Reg] = v
	}
	return nil
}

// loadedValue returns the value that a load from memory gives.
func (c *checker) loadedValue(name string, m *Mem, to *Operand) (Virt, error) {
	if m.Space == Slot {
		return c.contents(&Operand{Kind: Memory, Mem: m})
	}
	if err := c.checkNotOverwritten(m); err != nil {
		return 0, err
	}
	v, ok := c.loads[loadKey{name, *m, to.Bytes}]
	if !ok {
		return 0, fmt.Errorf("no value is at %+v", *m)
	}
	return v, nil
}

// checkNotOverwritten checks that no store may have changed memory.
func (c *checker) checkNotOverwritten(m *Mem) error {
	if m.Space == PerRow && !c.policy.OncePerRow {
		return errors.New("an element of kind PerRow is loaded outside the code that runs once per row")
	}
	for _, s := range c.stores {
		x := *m
		x.Step, s.Step = 0, 0
		if s.Space == Advancing {
			x.Index, s.Index = 0, 0 // outputs may share memory with operands
		}
		if s == x {
			return fmt.Errorf("memory %+v is read after the store to %+v", *m, s)
		}
	}
	return nil
}
