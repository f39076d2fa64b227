package cli

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// asCommand is set where the test binary is to be the command.
const asCommand = "GRAPHRUN_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		Main()
	}
	cache, err := os.MkdirTemp("", "graphrun") // plans must not depend on whether this machine was calibrated
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_CACHE_HOME", cache)
	code := m.Run()
	os.RemoveAll(cache)
	os.Exit(code)
}

// process is the command in a process of its own.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.CommandContext(t.Context(), self, args...)
	p.Env = append(os.Environ(), asCommand+"=1", "NO_COLOR=", "COLUMNS=", "TERM=xterm")
	return p
}

// piped runs the command in a process whose output goes into pipes.
func piped(t *testing.T, env []string, args ...string) result {
	t.Helper()
	p := process(t, args...)
	p.Env = append(p.Env, env...)
	var out, errs bytes.Buffer
	p.Stdout, p.Stderr = &out, &errs
	if err := p.Run(); err != nil && p.ProcessState == nil {
		t.Fatal(err)
	}
	return resultOf(p.ProcessState.ExitCode(), out.String(), errs.String())
}
