package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/testsize"
)

// terminal opens a terminal with the given number of columns. It returns the end of the user and the end of the
// program.
func terminal(t *testing.T, columns uint16) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this system lends no terminals: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	fd := int(user.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: columns})
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return user, program
}

// displayed runs the command on a terminal and returns the text that remains visible, with the line ends of files.
func displayed(t *testing.T, columns uint16, env []string, args ...string) string {
	t.Helper()
	user, program := terminal(t, columns)
	p := process(t, args...)
	p.Env = append(p.Env, env...)
	p.Stdout, p.Stderr = program, program
	return withoutErasedLines(strings.ReplaceAll(shownBy(t, p, user, program), "\r\n", "\n"))
}

// erasedLine matches lines of progress that replace each other, and the blanks that erase the last one. A command that
// takes more than a second shows such lines.
var erasedLine = regexp.MustCompile(`\r[^\n]* \r`)

func withoutErasedLines(s string) string { return erasedLine.ReplaceAllString(s, "") }

func shownBy(t *testing.T, p *exec.Cmd, user io.Reader, program *os.File) string {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close()
	var all bytes.Buffer
	_, _ = io.Copy(&all, user) // it ends with EIO when the other end is closed
	_ = p.Wait()
	return all.String()
}

// uncolored takes colours out.
func uncolored(s string) string {
	return strings.NewReplacer("\x1b[1m", "", "\x1b[1;31m", "", "\x1b[1;33m", "", "\x1b[0m", "").Replace(s)
}

// prose begins lines that are no table, and may be as long as they need to be.
var prose = regexp.MustCompile("^(strategy|estimated|proved:|take|pass|graphrun: note:) ")

// TestTerminalWidth holds every table to the width of the terminal.
func TestTerminalWidth(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(models + "/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	calls := [][]string{{"ops"}, {"ops", "conv2d"}, {"ops", "--kind", "view"}}
	for _, f := range files {
		calls = append(calls, []string{"infer", f}, []string{"plan", f}, []string{"run", f})
	}
	step := testsize.Of(2, 1)
	for i, args := range calls {
		for k, c := range []struct {
			columns uint16
			env     []string
			width   int
		}{{80, nil, 80}, {100, nil, 100}, {100, []string{"COLUMNS=60"}, 60}} {
			if (i+k)%step > 0 {
				continue
			}
			out := uncolored(displayed(t, c.columns, c.env, args...))
			if strings.Count(out, "\n") < 2 && args[0] != "run" {
				t.Fatalf("%v: want a table of several lines, got %q", args, out)
			}
			if strings.Contains(out, "\x1b") {
				t.Fatalf("%v: an escape sequence is neither a colour nor part of an erased line: %q", args, out)
			}
			for line := range strings.Lines(out) {
				if n := term.Width(strings.TrimSuffix(line, "\n")); n > c.width && !prose.MatchString(line) {
					t.Errorf("%v: %d columns of %d: %s", args, n, c.width, line)
				}
			}
		}
	}
}

// TestColors holds colours to where they belong.
func TestColors(t *testing.T) {
	t.Parallel()
	file := models + "/residual.json"
	for _, c := range []struct {
		env  []string
		args []string
		want bool
	}{
		{nil, []string{"infer", file}, true},
		{nil, []string{"infer", "missing.json"}, true},
		{nil, []string{"infer", "--jsn"}, true},
		{[]string{"NO_COLOR=1"}, []string{"infer", file}, false},
		{[]string{"NO_COLOR=1"}, []string{"infer", "missing.json"}, false},
		{[]string{"TERM=dumb"}, []string{"infer", file}, false},
		{nil, []string{"infer", "--color", "never", file}, false},
		{[]string{"NO_COLOR=1"}, []string{"--color=always", "infer", file}, false},
		{[]string{"NO_COLOR="}, []string{"--color=always", "infer", file}, true},
	} {
		if out := displayed(t, 80, c.env, c.args...); strings.Contains(out, "\x1b[") != c.want {
			t.Errorf("%v %v on a terminal: colours %v in %q", c.env, c.args, !c.want, out)
		}
	}
	for _, args := range [][]string{{"infer", file}, {"infer", "missing.json"}, {"ops", "conv2d"}, {"run", file}} {
		r := piped(t, []string{"COLUMNS=40"}, args...)
		if strings.Contains(r.out+r.errors, "\x1b") || strings.Contains(r.out, term.Ellipsis) {
			t.Errorf("%v into a pipe: %q %q", args, r.out, r.errors)
		}
	}
	if r := piped(t, nil, "infer", file, "--color", "always"); !strings.Contains(r.out, "\x1b[1mname") {
		t.Errorf("--color always into a pipe: %q", r.out)
	}
	if r := piped(t, []string{"NO_COLOR=1"}, "infer", file, "--color", "always"); strings.Contains(r.out, "\x1b") {
		t.Errorf("NO_COLOR and --color always into a pipe: %q", r.out)
	}
}

// awaited closes seen once the wanted text was written to it.
type awaited struct {
	want string
	text []byte
	seen chan struct{}
}

func (a *awaited) Write(p []byte) (int, error) {
	before := bytes.Contains(a.text, []byte(a.want))
	a.text = append(a.text, p...)
	if !before && bytes.Contains(a.text, []byte(a.want)) {
		close(a.seen)
	}
	return len(p), nil
}

// TestProgress: the line of progress tells the phase, and is erased before results.
func TestProgress(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "slow.json")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	user, program := terminal(t, 80)
	p := process(t, "infer", fifo)
	p.Stdout, p.Stderr = program, program
	shown := &awaited{want: "loading slow.json", seen: make(chan struct{})}
	go func() {
		f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err != nil {
			return
		}
		defer f.Close()
		<-shown.seen
		_, _ = f.WriteString(oneLoop)
	}()
	out := shownBy(t, p, io.TeeReader(user, shown), program)
	i, j := strings.Index(out, "loading slow.json"), strings.Index(out, "\x1b[1mname")
	if i < 0 || j < i || strings.Contains(out, "0 / 0") || !strings.Contains(out[i:j], " \r") {
		t.Errorf("got %q", out)
	}
	if left := withoutErasedLines(strings.ReplaceAll(out, "\r\n", "\n")); strings.Contains(left, "loading") ||
		strings.Contains(left, "\r") {
		t.Errorf("the line stays: %q", left)
	}
}
