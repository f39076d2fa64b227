package exec

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// What is another worker's is the part of a place where another part of something else was.
func TestForeign(t *testing.T) {
	const kib = 1 << 10
	a := affinity{workers: 2}
	assert.Zero(t, a.foreignBytes(0, 64*kib), "nobody was there")
	a.record(0, 64*kib)
	assert.Equal(t, -1, a.foreignBytes(0, 64*kib), "the same place")
	assert.Equal(t, 16*kib, a.foreignBytes(0, 32*kib), "its second half was the first worker's")
	assert.Equal(t, 16*kib, a.foreignBytes(32*kib, 32*kib), "its first half was the second worker's")
	assert.Zero(t, a.foreignBytes(16*kib, 32*kib), "the halves meet where they did")
	a.record(16*kib, 8*kib)
	assert.Equal(t, []lastUse{{0, 16 * kib, 0, 64 * kib}, {16 * kib, 24 * kib, 16 * kib, 8 * kib},
		{24 * kib, 64 * kib, 0, 64 * kib}}, a.lastUses)
	assert.Equal(t, 4*kib, a.foreignBytes(0, 64*kib), "half of what came between")
	a.record(8*kib, 64*kib)
	assert.Equal(t, []lastUse{{0, 8 * kib, 0, 64 * kib}, {8 * kib, 72 * kib, 8 * kib, 64 * kib}}, a.lastUses)
}

// Memory is taken where the same workers were, else at the beginning of the smallest block.
func TestChoose(t *testing.T) {
	const kib = 1 << 10
	a := affinity{workers: 2}
	a.record(0, 64*kib)
	a.record(64*kib, 128*kib)
	for _, c := range []struct {
		blocks     []block
		size       int
		best, at   int
		everywhere string
	}{
		{[]block{{offset: 0, size: 64 * kib}}, 96 * kib, -1, 0, "there is no room"},
		{[]block{{offset: 0, size: 64 * kib}}, 32 * kib, 0, 16 * kib, "in the middle"},
		{[]block{{offset: 0, size: 64 * kib}, {offset: 64 * kib, size: 128 * kib}}, 128 * kib, 1, 64 * kib, "all of it"},
		{[]block{{offset: 32 * kib, size: 160 * kib}}, 64 * kib, 0, 96 * kib, "in the middle of what is free in part"},
		{[]block{{offset: 256 * kib, size: 64 * kib}, {offset: 512 * kib, size: 32 * kib}}, 8 * kib, 1, 512 * kib,
			"the smallest"},
	} {
		best, at := a.chooseAddress(c.blocks, c.size)
		assert.Equal(t, []int{c.best, c.at}, []int{best, at}, c.everywhere)
	}
}

// rows makes a program of steps in a row, each of so many chunks, that hand on values of so many bytes.
func rows(bytes int, chunks ...int) *Program {
	p := &Program{threads: 2, storages: make([]storage, len(chunks)+1)}
	before := &graph.Value{Meta: tensor.New(tensor.Float32, bytes/4)}
	for i, n := range chunks {
		v := &graph.Value{Meta: before.Meta}
		p.storages[i+1].bytes = bytes
		p.steps = append(p.steps, step{addresses: []storageAddress{{storage: i + 1}, {storage: i}},
			node:   &graph.Node{Out: []*graph.Value{v}, In: []graph.Arg{{Kind: graph.TensorArg, Value: before}}},
			kernel: &graph.Kernel{Phases: []graph.Phase{{Chunks: n}}}})
		before = v
	}
	return p
}

// A step is not shared where what goes from core to core takes longer than sharing saves.
func TestSplits(t *testing.T) {
	const share, kib = 5e3, 1 << 10
	for _, c := range []struct {
		name   string
		bytes  int
		chunks []int
		costs  []float64
		want   []bool
	}{
		{"alone among little ones", 64 * kib, []int{1, 2, 1}, []float64{1e3, 12e3, 1e3}, []bool{false, false, false}},
		{"alone, but large", 64 * kib, []int{1, 2, 1}, []float64{1e3, 60e3, 1e3}, []bool{false, true, false}},
		{"alone, with little to hand on", 256, []int{1, 2, 1}, []float64{1e3, 12e3, 1e3}, []bool{false, true, false}},
		{"all alike", 64 * kib, []int{2, 2, 2}, []float64{12e3, 12e3, 12e3}, []bool{true, true, true}},
		{"not worth it", 64 * kib, []int{2, 2}, []float64{4e3, 4e3}, []bool{false, false}},
		{"between others", 64 * kib, []int{2, 2, 2}, []float64{12e3, 4e3, 12e3}, []bool{true, true, true}},
		{"some between others", 64 * kib, []int{2, 2, 2, 2}, []float64{12e3, 4e3, 4e3, 12e3}, []bool{true, true, true, true}},
		{"little between others", 256, []int{2, 2, 2}, []float64{12e3, 1e3, 12e3}, []bool{true, false, true}},
	} {
		assert.Equal(t, c.want, rows(c.bytes, c.chunks...).chooseSplits(c.costs, share), c.name)
	}
}

// A step of which all parts of a value come from others hands on what those wrote, and nothing itself.
func TestMovesPassOver(t *testing.T) {
	p := rows(64<<10, 2, 0, 2)
	// the step in between has its result where it is
	p.steps[1].addresses[0].storage, p.steps[2].addresses[1].storage = 1, 1
	assert.Equal(t, []transfer{{0, 2, 64 << 10 / 2 / machine.LineBytes * 3}}, p.transfers(3))
}

// Workers are expected some time before the section that is shared.
func TestExpected(t *testing.T) {
	p := &Program{}
	p.addSerial([]float64{wakeAheadNS, wakeAheadNS, wakeAheadNS / 2, wakeAheadNS / 2, 0}, 1, 4, 1)
	require.Len(t, p.sections, 2)
	assert.Equal(t, section{first: 1, end: 2}, p.sections[0])
	assert.Equal(t, section{first: 2, end: 4, nextPolicy: 1}, p.sections[1])
	p.sections = nil
	p.addSerial([]float64{1, 1}, 0, 2, 2)
	assert.Equal(t, []section{{first: 0, end: 2, nextPolicy: 2}}, p.sections)
}
