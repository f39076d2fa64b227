package alloc_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/jit/alloc"
)

// program is a random list with its registers.
type program struct {
	alloc.Builder
	file    alloc.RegisterFile
	policy  alloc.Policy
	rng     *rand.Rand
	vectors []alloc.Virt
	masks   []alloc.Virt
}

var (
	fma = []alloc.Form{{Name: "fma231", Tied: 2, Order: [2]int8{0, 1}},
		{Name: "fma231", Tied: 2, Order: [2]int8{1, 0}},
		{Name: "fma213", Tied: 0, Order: [2]int8{2, 1}}, {Name: "fma132", Tied: 1, Order: [2]int8{0, 2}}}
	selection = []alloc.Form{{Name: "bsl", Tied: 0, Order: [2]int8{1, 2}},
		{Name: "bit", Tied: 2, Order: [2]int8{1, 0}},
		{Name: "bif", Tied: 1, Order: [2]int8{2, 0}}}
)

// randomProgram returns a list of instructions of all kinds with 5 to 10 vector registers.
func randomProgram(rng *rand.Rand) *program {
	p := &program{rng: rng}
	p.policy.Masked, p.policy.EvictReloadableFirst = rng.IntN(2) == 0, rng.IntN(2) == 0
	for k := range 8 {
		lane := uint8(rng.IntN(2) * 4)
		p.vectors = append(p.vectors, p.New(alloc.Value{Bytes: 16, Invariant: true, Constant: true,
			Reload: &alloc.Reload{
				Name: "constant", Mem: alloc.Mem{Space: alloc.Constant, Data: string(rune('a' + k))}, Foldable: true,
				BroadcastBytes: lane}}),
			p.New(alloc.Value{Bytes: 16, Reload: &alloc.Reload{Name: "load", Foldable: k != 1,
				Mem: alloc.Mem{Space: alloc.AlongRow, Index: 3 + k/4, Offset: int32(k % 4 * 16), ElementBytes: 4}}}))
	}
	p.masks = []alloc.Virt{p.New(alloc.Value{Class: alloc.Masks, Invariant: true})}
	row := []alloc.Virt{p.masks[0], p.New(alloc.Value{Bytes: 16, Invariant: true}),
		p.New(alloc.Value{Bytes: 16, Invariant: true})}
	p.vectors = append(p.vectors, row[1:]...)
	var accs []alloc.Virt
	for k := range 2 {
		accs = append(accs, p.New(alloc.Value{Bytes: 16, Acc: &alloc.Acc{Index: k}}))
	}
	for range 5 + rng.IntN(60) {
		p.Body = append(p.Body, p.randomInst())
	}
	for _, a := range accs {
		p.Body = append(p.Body, p.fold(a))
	}
	computed := p.vectors[len(p.vectors)-min(4, len(p.vectors)-18):]
	for k, v := range computed {
		p.Body = append(p.Body, alloc.Inst{Name: "store", Src: []alloc.Arg{{Virt: v}}, FoldableSource: -1,
			Store: &alloc.Mem{Space: alloc.AlongRow, Index: k % 2, Offset: int32(k * 16), ElementBytes: 4}})
	}
	p.assign(row)
	return p
}

func (p *program) vector() alloc.Arg { return alloc.Arg{Virt: p.vectors[p.rng.IntN(len(p.vectors))]} }

// randomInst returns an instruction on values that exist.
func (p *program) randomInst() alloc.Inst {
	in := alloc.Inst{Name: "sub", Src: []alloc.Arg{p.vector(), p.vector()}, FoldableSource: int8(p.rng.IntN(3) - 1),
		BroadcastBytes: 4}
	class := alloc.Vectors
	switch p.rng.IntN(12) {
	case 0, 1:
		in.Name, in.FoldableSource, in.Commutative = "add", 0, true
	case 2:
		in.Name, in.Tied = "tied", p.vector().Virt
	case 3:
		in.Name, in.FoldableSource, in.Tied = "expandtied", -1, p.vector().Virt
		in.TempCounts, in.InstructionCount = [2]uint8{1, 1}, 5
	case 4:
		in.Name, in.FoldableSource, in.EarlyClobber, in.InstructionCount = "expand", -1, true, 3
	case 5, 6:
		in.Forms, in.Src, in.FoldableSource = fma, append(in.Src, p.vector()), 0
	case 7:
		in.Forms, in.Src, in.FoldableSource = selection, append(in.Src, p.vector()), -1
	case 8:
		in.Name, in.FoldableSource, class = "compare", -1, alloc.Masks
	case 9:
		in.Name, in.Mask = "masked tied", p.masks[p.rng.IntN(len(p.masks))]
		in.Tied = in.Src[0].Virt
	case 10:
		in.Name, in.Src, in.FoldableSource = alloc.Move, in.Src[:1], -1
	}
	if class == alloc.Masks {
		in.Dst = p.New(alloc.Value{Class: class})
		p.masks = append(p.masks, in.Dst)
		return in
	}
	in.Dst = p.New(alloc.Value{Bytes: 16})
	p.vectors = append(p.vectors, in.Dst)
	return in
}

// fold returns the fold of a value into an accumulator.
func (p *program) fold(acc alloc.Virt) alloc.Inst {
	in := alloc.Inst{Name: "sub", Src: []alloc.Arg{p.vector(), {Virt: acc}}, Dst: acc, FoldableSource: 0,
		BroadcastBytes: 4}
	if p.rng.IntN(2) == 0 {
		in.Forms, in.Src = selection, []alloc.Arg{p.vector(), p.vector(), {Virt: acc}}
		in.FoldableSource = -1
	}
	return in
}

// assign chooses registers: permanent registers or slots for row constants, and few registers for other values.
func (p *program) assign(row []alloc.Virt) {
	n := len(p.Values)
	p.file = alloc.RegisterFile{Permanent: slices.Repeat([]int8{-1}, n), PermanentSlot: slices.Repeat([]int16{-1}, n),
		ReservedSlots: 2, FoldLoads: p.rng.IntN(4) > 0, Pool: [2]uint32{1<<(5+p.rng.IntN(6)) - 1, 0b1110}}
	p.file.Permanent[row[0]] = 7
	p.file.Permanent[row[1]] = 20
	p.file.PermanentSlot[row[2]] = 1
}

// TestRun executes allocated random lists on a machine whose values are hashes.
func TestRun(t *testing.T) {
	spills := 0
	for seed := range testsize.Of[uint64](1000, 4000) {
		p := randomProgram(rand.New(rand.NewPCG(seed, 1)))
		r := alloc.Run(p.Values, &p.file, p.Body, p.policy)
		require.NoError(t, r.Err)
		require.NoError(t, alloc.Check(p.Values, &p.file, p.Body, p.policy, r), "seed %d", seed)
		require.True(t, p.sameResults(p.reference(), p.execute(r.Insts)), "seed %d", seed)
		spills += r.Slots - p.file.ReservedSlots
		r.Free()
	}
	require.Greater(t, spills, testsize.Of(250, 1000))
}

// mutations change a list: registers, moves, slots, operands and forms.
var mutations = []struct {
	name  string
	apply func(rng *rand.Rand, list []alloc.Allocated) []alloc.Allocated
}{
	{"another register", func(rng *rand.Rand, list []alloc.Allocated) []alloc.Allocated {
		o := &list[rng.IntN(len(list))]
		if a := &o.Args[rng.IntN(len(o.Args))]; a.Kind == alloc.Register {
			a.Reg = int8(rng.IntN(8))
		}
		return list
	}},
	{"swapped operands", func(rng *rand.Rand, list []alloc.Allocated) []alloc.Allocated {
		o := &list[rng.IntN(len(list))]
		if a, b := &o.Args[rng.IntN(len(o.Args))], &o.Args[rng.IntN(len(o.Args))]; a.Kind == b.Kind {
			*a, *b = *b, *a
		}
		return list
	}},
	{"no move", func(rng *rand.Rand, list []alloc.Allocated) []alloc.Allocated {
		k := rng.IntN(len(list))
		if list[k].Kind == alloc.Plain {
			return list
		}
		return slices.Delete(list, k, k+1)
	}},
	{"later", func(rng *rand.Rand, list []alloc.Allocated) []alloc.Allocated {
		k := rng.IntN(len(list))
		o := list[k]
		list = slices.Delete(list, k, k+1)
		return slices.Insert(list, k+rng.IntN(len(list)-k+1), o)
	}},
	{"another slot", func(rng *rand.Rand, list []alloc.Allocated) []alloc.Allocated {
		o := &list[rng.IntN(len(list))]
		if a := &o.Args[rng.IntN(len(o.Args))]; a.Mem != nil && a.Mem.Space == alloc.Slot {
			mem := *a.Mem
			mem.Index = rng.IntN(mem.Index + 2)
			a.Mem = &mem
		}
		return list
	}},
	{"another load", func(rng *rand.Rand, list []alloc.Allocated) []alloc.Allocated {
		o, from := &list[rng.IntN(len(list))], &list[rng.IntN(len(list))]
		if a, b := &o.Args[0], &from.Args[0]; a.Mem != nil && b.Mem != nil {
			*a, o.Name = *b, from.Name
		}
		return list
	}},
	{"another form", func(rng *rand.Rand, list []alloc.Allocated) []alloc.Allocated {
		o := &list[rng.IntN(len(list))]
		for _, forms := range [][]alloc.Form{fma, selection} {
			if slices.ContainsFunc(forms, func(f alloc.Form) bool { return f.Name == o.Name }) {
				o.Name = forms[rng.IntN(len(forms))].Name
			}
		}
		return list
	}},
}

// TestCheckFindsMutations changes allocated lists. Check must reject each list with other results.
func TestCheckFindsMutations(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			wrong := 0
			for seed := range testsize.Of[uint64](400, 1200) {
				rng := rand.New(rand.NewPCG(seed, 2))
				p := randomProgram(rng)
				r := alloc.Run(p.Values, &p.file, p.Body, p.policy)
				require.NoError(t, r.Err)
				changed := &alloc.Result{Insts: slices.Clone(r.Insts), Slots: r.Slots}
				for k := range changed.Insts {
					changed.Insts[k].Args = slices.Clone(changed.Insts[k].Args)
				}
				changed.Insts = m.apply(rng, changed.Insts)
				if p.sameResults(p.reference(), p.execute(changed.Insts)) {
					continue
				}
				wrong++
				require.Error(t, alloc.Check(p.Values, &p.file, p.Body, p.policy, changed), "seed %d", seed)
			}
			require.Greater(t, wrong, testsize.Of(10, 30))
		})
	}
}

// rowProgram returns a list that computes a row constant, and an operand.
func rowProgram() (b alloc.Builder, f alloc.RegisterFile, row, operand alloc.Virt) {
	operand = b.New(alloc.Value{Bytes: 16, Reload: &alloc.Reload{Name: "load", Foldable: true,
		Mem: alloc.Mem{Space: alloc.AlongRow, Index: 2, ElementBytes: 4}}})
	one := b.New(alloc.Value{Bytes: 16, Invariant: true, Constant: true, Reload: &alloc.Reload{Name: "constant",
		Mem: alloc.Mem{Space: alloc.Constant, Data: "1"}}})
	row = b.Add(alloc.Inst{Name: "neg", Src: []alloc.Arg{{Virt: one}}, Dst: b.New(alloc.Value{Bytes: 16}),
		FoldableSource: -1})
	f = alloc.RegisterFile{Pool: [2]uint32{0b1111}, Permanent: []int8{-1, -1, -1, -1},
		PermanentSlot: []int16{-1, -1, -1, 0},
		ReservedSlots: 1}
	return b, f, row, operand
}

// TestCheckRowConstants: a list that runs once per row must save its results.
func TestCheckRowConstants(t *testing.T) {
	b, f, _, _ := rowProgram()
	p := alloc.Policy{OncePerRow: true}
	r := alloc.Run(b.Values, &f, b.Row, p)
	require.NoError(t, alloc.Check(b.Values, &f, b.Row, p, r))
	last := len(r.Insts) - 1
	require.Equal(t, alloc.Save, r.Insts[last].Kind)
	r.Insts = r.Insts[:last]
	require.ErrorContains(t, alloc.Check(b.Values, &f, b.Row, p, r), "not in its slot")
}

// TestCheckReadAfterStore: outputs may share memory with operands, so an operand is not loaded after a store.
func TestCheckReadAfterStore(t *testing.T) {
	b, f, row, operand := rowProgram()
	store := func(k int, v alloc.Virt) alloc.Inst {
		return alloc.Inst{Name: "store", Src: []alloc.Arg{{Virt: v}}, FoldableSource: -1,
			Store: &alloc.Mem{Space: alloc.AlongRow, Index: k, ElementBytes: 4}}
	}
	list := []alloc.Inst{store(0, operand), store(1, row)}
	r := alloc.Run(b.Values, &f, list, alloc.Policy{})
	require.NoError(t, alloc.Check(b.Values, &f, list, alloc.Policy{}, r))
	list = []alloc.Inst{store(0, row), store(1, operand)}
	r = alloc.Run(b.Values, &f, list, alloc.Policy{})
	require.ErrorContains(t, alloc.Check(b.Values, &f, list, alloc.Policy{}, r), "is read after the store")
}

// TestRunFails: an instruction has more sources than there are registers, and an accumulator is overwritten.
func TestRunFails(t *testing.T) {
	b, f, row, operand := rowProgram()
	f.Pool = [2]uint32{1}
	x := b.New(alloc.Value{Bytes: 16})
	f.Permanent, f.PermanentSlot = append(f.Permanent, -1), append(f.PermanentSlot, -1)
	list := []alloc.Inst{{Name: "sub", Src: []alloc.Arg{{Virt: row}, {Virt: operand}}, Dst: x, FoldableSource: -1}}
	require.Error(t, alloc.Run(b.Values, &f, list, alloc.Policy{}).Err)
	f.Pool = [2]uint32{0b1111}
	b.Values[x].Acc = new(alloc.Acc)
	list = []alloc.Inst{{Name: "sub", Src: []alloc.Arg{{Virt: x}, {Virt: operand}}, Tied: row, Dst: x, FoldableSource: -1}}
	require.Error(t, alloc.Run(b.Values, &f, list, alloc.Policy{}).Err)
}
