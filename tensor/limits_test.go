//go:build !386 && !arm

package tensor

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestStorageThatCannotBeHad(t *testing.T) {
	allocate := func(n int) (err error) {
		defer CatchMemory(&err)
		NewStorage(n)
		return nil
	}
	for _, n := range []int{1 << 50, math.MaxInt, math.MaxInt - Align} {
		var m *MemoryError
		if err := allocate(n); !errors.As(err, &m) || m.Bytes != n || m.Left >= n ||
			!strings.Contains(err.Error(), "of memory are needed") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if err := allocate(2 * checkInterval); err != nil {
		t.Error(err)
	}
}

func TestCatchMemoryLetsOthersPass(t *testing.T) {
	defer func() {
		if x := recover(); x != "other" {
			t.Errorf("recovered %v", x)
		}
	}()
	func() (err error) {
		defer CatchMemory(&err)
		panic("other")
	}()
	t.Error("the panic was lost")
}
