package lane_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// sumLoop stores x + c, with one c for each row, and adds these sums into a fold.
func sumLoop(totals bool) *lane.Loop {
	l := &lane.Loop{CombinesLanes: totals}
	l.Ptrs = []lane.Ptr{{DType: tensor.Int32, Kind: lane.Output}, {DType: tensor.Int32},
		{DType: tensor.Int32, Kind: lane.RowOperand},
		{DType: tensor.Int32, Kind: lane.Accumulator}}
	v := l.Emit(lane.Add, tensor.Int32, l.Load(1, 0), l.Load(2, 0))
	l.Folds = []lane.Fold{{Op: lane.Add, Value: v, Ptr: 3}}
	l.Store(0, v, lane.None)
	return l
}

func TestListing(t *testing.T) {
	require.Equal(t, `v0 = load.int32 p1
v1 = load.int32 p2 (uniform)
v2 = add.int32 v0 v1
store.int32 p0 v2
total p3: add v2
`, sumLoop(true).String())
	b := newBlock(tensor.Float32, tensor.Complex64, tensor.Bool)
	b.Store(0, b.Emit(lane.Select, tensor.Float32, b.Load(2, 0), b.Load(1, 1), b.Const(tensor.Float32, 0)), lane.None)
	require.Equal(t, `v0 = load.mask8 p2 (uniform)
v1 = load.float32 p1.im
v2 = const.float32 0x0 (uniform)
v3 = remask.mask32 v0 (uniform)
v4 = select.float32 v3 v1 v2
store.float32 p0 v4
`, b.String())
}

// TestEmulate computes a row of 45 elements in passes of 16, 16, 4, 4, 4 and 1 elements.
func TestEmulate(t *testing.T) {
	words := func(n int) (m []byte) {
		for k := range n {
			m = binary.NativeEndian.AppendUint32(m, uint32(k))
		}
		return m
	}
	word := func(m []byte, k int) int { return int(binary.NativeEndian.Uint32(m[4*k:])) }
	const elements = 45
	mem := [][]byte{make([]byte, 4*elements), words(elements), words(5)[4*4:], words(lane.FoldLanes)}
	require.NoError(t, sumLoop(false).Emulate(16, 4, elements, mem))
	total := 0
	for k := range elements {
		require.Equal(t, k+4, word(mem[0], k))
		total += k + 4
	}
	for k := range lane.FoldLanes {
		want := k + k + 4
		if k+lane.FoldLanes < elements {
			want += k + lane.FoldLanes + 4
		}
		require.Equal(t, want, word(mem[3], k))
	}
	mem[3] = words(1)
	require.NoError(t, sumLoop(true).Emulate(16, 4, elements, mem))
	require.Equal(t, total, word(mem[3], 0))
}

// TestTotalsKeepOrder: the minimum of two zeros is the second one.
func TestTotalsKeepOrder(t *testing.T) {
	l := &lane.Loop{CombinesLanes: true}
	l.Ptrs = []lane.Ptr{{DType: tensor.Float32}, {DType: tensor.Float32, Kind: lane.Accumulator}}
	l.Folds = []lane.Fold{{Op: lane.Min, Value: l.Load(0, 0), Ptr: 1}}
	for _, first := range []uint32{0, 1 << 31} {
		var row []byte
		for k := range lane.FoldLanes {
			sign := first
			if k >= lane.FoldLanes/2 {
				sign ^= 1 << 31
			}
			row = binary.NativeEndian.AppendUint32(row, sign)
		}
		total := make([]byte, 4)
		require.NoError(t, l.Emulate(8, 4, lane.FoldLanes, [][]byte{row, total}))
		require.Equal(t, first^1<<31, binary.NativeEndian.Uint32(total))
	}
}

func TestRunAsChecksArguments(t *testing.T) {
	mem := func() [][]byte {
		return [][]byte{make([]byte, 20), make([]byte, 20), make([]byte, 4), make([]byte, 128)}
	}
	l := sumLoop(false)
	require.NoError(t, l.Emulate(8, 2, 5, mem()))
	require.Error(t, l.Emulate(12, 2, 5, mem()))
	require.Error(t, l.Emulate(2, 4, 5, mem()))
	require.Error(t, l.Emulate(4, 0, 5, mem()))
	require.Error(t, l.Emulate(8, 2, 5, mem()[:3]))
	for k := range mem() {
		m := mem()
		m[k] = m[k][:len(m[k])-1]
		require.Error(t, l.Emulate(8, 2, 5, m))
	}
	l.Folds[0].Op = lane.Sub
	require.Error(t, l.Emulate(8, 2, 5, mem()))
}
