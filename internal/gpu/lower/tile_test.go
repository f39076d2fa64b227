package lower

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// TestBanks checks that the cells of a tile are distinct, and that the threads of a warp access 32 different banks of
// group memory, along rows and along columns.
func TestBanks(t *testing.T) {
	const u32, u64, warp, banks = tensor.Uint32, tensor.Uint64, 32, 32
	for _, c := range []struct{ side, vector int }{{32, 1}, {64, 2}, {64, 4}, {32, 2}, {32, 4}} {
		for _, alongX := range []bool{false, true} {
			k := &tile{pointwise: &pointwise{scalarBuilder: scalarBuilder{Builder: ir.NewBuilder(1, groupSize)}}, side: c.side,
				threadsPerSide: c.side / c.vector}
			k.vector = c.vector
			thread := k.Emit(ir.Thread, u32)
			k.vectorIndex = k.op(lane.And, u32, thread, k.u32(k.threadsPerSide-1))
			k.row = k.quotient(thread, k.threadsPerSide)
			accesses := 0 // of a thread
			for step := 0; step < c.side; step += k.rowStep() {
				for element := range c.vector {
					along, across := k.add32(k.op(lane.Mul, u32, k.vectorIndex, k.u32(c.vector)), k.u32(element)),
						k.add32(k.row, k.u32(step))
					cell := k.cell(k.interleaved(across), along, k.interleavedInVector(element))
					if alongX {
						cell = k.cell(k.interleavedInVector(element), across, k.interleaved(across))
					}
					offset := k.add32(k.op(lane.Mul, u32, thread, k.u32(4)), k.u32(4*groupSize*accesses))
					k.Emit(ir.Store, u32, k.addOffset(k.EmitImm(ir.Param, u64, 0), offset), cell)
					accesses++
				}
			}
			mem := make([]byte, 4*c.side*c.side)
			require.NoError(t, k.Run(1, []ir.Operand{{Mem: mem}}))
			cells := map[uint32]bool{}
			for first := 0; first < len(mem); first += 4 * warp {
				used := map[uint32]bool{}
				for lane := range warp {
					cell := binary.LittleEndian.Uint32(mem[first+4*lane:])
					cells[cell], used[cell%banks] = true, true
				}
				require.Len(t, used, banks, "%+v, along dimension 0: %v", c, alongX)
			}
			require.Len(t, cells, c.side*c.side)
		}
	}
}
