package panics

import (
	"strings"
	"testing"
)

func failing(list []int, i int) int { return list[i] }

// TestError: an internal error names the function that panicked first, in few lines. With GOTRACEBACK, it has the
// stack.
func TestError(t *testing.T) {
	recovered := func() (err error) {
		defer Recover(&err)
		failing(nil, 3)
		return nil
	}
	lines := strings.Split(recovered().Error(), "\n")
	if len(lines) > 1+maxFrames || !strings.HasPrefix(lines[0], "internal error: runtime error: index out of range [3]") ||
		!strings.Contains(lines[1], "panics.failing (") || !strings.Contains(lines[1], "panics_test.go:") {
		t.Errorf("%q", lines)
	}
	t.Setenv("GOTRACEBACK", "all")
	if text := recovered().Error(); !strings.Contains(text, "goroutine ") {
		t.Error(text)
	}
}
