//go:build amd64

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/report"
)

// hardened is set where the process is to be refused executable memory, as services with systemd's
// MemoryDenyWriteExecute are.
const hardened = "GRAPHRUN_TEST_HARDENED"

// noFilter is the exit status of a process that may not filter its system calls.
const noFilter = 77

func init() {
	if os.Getenv(hardened) == "" {
		return
	}
	if err := refuseExecutable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(noFilter)
	}
}

// refuseExecutable has mprotect fail in all threads where memory would become executable.
func refuseExecutable() error {
	const load, equal, anyBit, give = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	const number, third = 0, 16 + 2*8 // offsets in struct seccomp_data
	code := []unix.SockFilter{
		{Code: load, K: number},
		{Code: equal, K: unix.SYS_MPROTECT, Jf: 3},
		{Code: load, K: third},
		{Code: anyBit, K: unix.PROT_EXEC, Jf: 1},
		{Code: give, K: unix.SECCOMP_RET_ERRNO | uint32(syscall.EACCES)},
		{Code: give, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if e != 0 {
		return e
	}
	return nil
}

// TestHardened: without executable memory, graphs run with the interpreter, with the same results.
func TestHardened(t *testing.T) {
	env := []string{hardened + "=1"}
	r := piped(t, env, "version")
	if r.code == noFilter {
		t.Skip("this process may not filter its system calls: ", r.errors)
	}
	const refused = "no machine code: "
	why := strings.TrimSpace(r.out[max(0, strings.Index(r.out, refused)):])
	if r.code != exit.CodeDone || !strings.HasPrefix(why, refused) {
		t.Fatalf("exit %d, %s%s", r.code, r.out, r.errors)
	}
	machineHasCode := machine.HostFeatures() != machine.Portable && os.Getenv("GRAPHRUN_JIT") == ""
	if machineHasCode && !strings.Contains(why, "permission denied") {
		t.Errorf("it is not the system that refuses: %s", why)
	}
	graph := models + "/residual.json"
	plan := piped(t, env, "plan", graph)
	if plan.code != exit.CodeDone || !strings.Contains(plan.out, "\n"+why+"; all loops run in Go\n") {
		t.Errorf("exit %d, %s%s", plan.code, plan.out, plan.errors)
	}
	var report report.Plan
	doc := piped(t, env, "plan", graph, "--json")
	if err := json.Unmarshal([]byte(doc.out), &report); err != nil || refused+report.NoCode != why {
		t.Errorf("%v: no_machine_code is %q", err, report.NoCode)
	}
	got, want := piped(t, env, "run", graph), piped(t, nil, "run", graph)
	if got.code != exit.CodeDone || want.code != exit.CodeDone || got.out != want.out {
		t.Errorf("exit %d and %d: %s%s instead of %s", got.code, want.code, got.out, got.errors, want.out)
	}
}
