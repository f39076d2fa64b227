//go:build !386 && !arm

package product

import (
	"testing"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
)

// unitShape returns the shape of a product on the matrix unit.
func unitShape() byteShape {
	return byteShape{m: 40, n: 100, k: 64, groupBytes: 4, groupElements: 4, groups: 16, lanes: 16, vectors: 2,
		height: 2 * tile.UnitRows, usesMatrixUnit: true}
}

// TestFarRowsLeaveTheMatrixUnit checks that vector instructions multiply, with the same panels, if rows of the result
// are too far apart for the matrix unit's code.
func TestFarRowsLeaveTheMatrixUnit(t *testing.T) {
	near := unitShape()
	if s := near.forRowStride(maxUnitRowStep / sumBytes); s != near {
		t.Errorf("rows within reach: %+v becomes %+v", near, s)
	}
	for _, row := range []int{maxUnitRowStep/sumBytes + 1, 1 << 30, 1 << 45} {
		if s := near.forRowStride(row); s.usesMatrixUnit || s.formatName() != near.formatName() || s.height < 1 ||
			s.height > tile.MaxDynamicRows {
			t.Errorf("rows %d elements apart: %+v becomes %+v", row, near, s)
		}
	}
}

// TestUnitStepFitsTheCode generates the code of the tallest tile with the largest row distance of the matrix unit.
func TestUnitStepFitsTheCode(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	b := &byteTiles{byteShape: unitShape(), rowCopier: &byteRowCopier{rowStride: maxUnitRowStep},
		outRowStride: maxUnitRowStep / sumBytes}
	spec := b.spec(byteCodeKey{height: b.height, groups: b.groups})
	if _, err := tile.Compile(spec, machine.AVX512); err != nil {
		t.Error(err)
	}
	if spec.Out[b.height-1] != (b.height-1)*maxUnitRowStep || spec.In[b.height-1] != (b.height-1)*maxUnitRowStep {
		t.Errorf("rows are at %v and %v", spec.In, spec.Out)
	}
}
