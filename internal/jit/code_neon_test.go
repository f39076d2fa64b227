package jit

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit/target/arm64/asm"
	"github.com/graphrun/graphrun/internal/testsize"
)

// finishARM64 ends code and returns it.
func finishARM64(t testing.TB, a *asm.Assembler) []byte {
	t.Helper()
	a.Emit("ret")
	code, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// adderARM64 returns the code of [adder] for arm64.
func adderARM64(t testing.TB, c float32) []byte {
	t.Helper()
	var a asm.Assembler
	words := make([]byte, 16)
	for i := range 4 {
		binary.LittleEndian.PutUint32(words[4*i:], math.Float32bits(c))
	}
	from, to, left, args := asm.X(1), asm.X(2), asm.X(3), asm.X(0)
	a.Emit("ldr", from, asm.Mem{Base: args, Offset: int(OffsetPtr)})
	a.Emit("ldr", to, asm.Mem{Base: args, Offset: int(OffsetPtr) + 8})
	a.Emit("ldr", left, asm.Mem{Base: args, Offset: int(OffsetInnerCount)})
	a.Emit("ldr", asm.Scalar{Num: 1, Elem: asm.Q}, a.Constant(words))
	top, rest, one, end := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	a.Bind(top)
	a.Emit("subs", left, left, asm.Imm(4))
	a.Emit("b.lt", rest)
	a.Emit("ldr", asm.Scalar{Num: 2, Elem: asm.Q}, asm.Mem{Base: from, Offset: 16, Mode: asm.PostIndex})
	a.Emit("fadd", asm.V(2, asm.S), asm.V(2, asm.S), asm.V(1, asm.S))
	a.Emit("str", asm.Scalar{Num: 2, Elem: asm.Q}, asm.Mem{Base: to, Offset: 16, Mode: asm.PostIndex})
	a.Emit("b", top)
	a.Bind(rest)
	a.Emit("add", left, left, asm.Imm(4))
	a.Bind(one)
	a.Emit("cbz", left, end)
	a.Emit("ldr", asm.Scalar{Num: 2, Elem: asm.S}, asm.Mem{Base: from, Offset: 4, Mode: asm.PostIndex})
	a.Emit("fadd", asm.Scalar{Num: 2, Elem: asm.S}, asm.Scalar{Num: 2, Elem: asm.S}, asm.Scalar{Num: 1, Elem: asm.S})
	a.Emit("str", asm.Scalar{Num: 2, Elem: asm.S}, asm.Mem{Base: to, Offset: 4, Mode: asm.PostIndex})
	a.Emit("sub", left, left, asm.Imm(1))
	a.Emit("b", one)
	a.Bind(end)
	return finishARM64(t, &a)
}

// clobberARM64 returns code that changes all registers that code may use.
func clobberARM64(t testing.TB) []byte {
	t.Helper()
	var a asm.Assembler
	for r := range 28 {
		if r != 18 { // reserved for the operating system
			a.Emit("movz", asm.X(r), asm.Imm(7777))
		}
	}
	for v := range 32 {
		a.Emit("dup", asm.V(v, asm.D), asm.X(1))
	}
	a.Emit("cmp", asm.X(1), asm.Imm(9))
	return finishARM64(t, &a)
}

// spillARM64 returns code that writes to the end of the spill area, and its aligned address to Args.InnerCount.
func spillARM64(t testing.TB) []byte {
	t.Helper()
	var a asm.Assembler
	a.Emit("add", asm.X(1), asm.X(0), asm.Imm(OffsetSpill+63))
	a.Emit("and", asm.X(1), asm.X(1), asm.Imm(-64))
	a.Emit("str", asm.X(1), asm.Mem{Base: asm.X(0), Offset: int(OffsetInnerCount)})
	a.Emit("movz", asm.X(2), asm.Imm(SpillBytes-1))
	a.Emit("strb", asm.W(2), asm.Indexed(asm.X(1), asm.X(2)))
	return finishARM64(t, &a)
}

// TestRemapped maps, calls and unmaps functions in several goroutines, so that addresses hold one code after another.
// Each function returns its own number: a core that executes instructions of an earlier mapping returns another one.
// Emulators do not have this fault; processors with separate caches do.
func TestRemapped(t *testing.T) {
	needCode(t)
	if runtime.GOARCH != "arm64" {
		t.Skip("amd64 has coherent caches")
	}
	rounds := testsize.Of(200, 2000)
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			args := new(Args)
			for i := range rounds {
				if err := remap(t, args, (w*rounds+i)&0xFFFF); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
}

// remap maps several copies of a function that writes a number to Args.InnerCount, calls each of them, and unmaps them.
func remap(t testing.TB, args *Args, number int) error {
	var a asm.Assembler
	a.Emit("movz", asm.X(1), asm.Imm(number))
	a.Emit("str", asm.X(1), asm.Mem{Base: asm.X(0), Offset: int(OffsetInnerCount)})
	code := finishARM64(t, &a)
	const copies = 70 // more than a page
	memory, err := mapExecutable(copies*codeAlign, func(to []byte) {
		for k := range copies {
			copy(to[k*codeAlign:], code)
		}
	})
	if err != nil {
		return err
	}
	defer unmap(memory)
	for k := range copies {
		args.InnerCount = -1
		call(uintptr(unsafe.Pointer(&memory[k*codeAlign])), args)
		if args.InnerCount != number {
			return fmt.Errorf("copy %d returns %d, want %d", k, args.InnerCount, number)
		}
	}
	return nil
}
