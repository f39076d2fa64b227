package ptx_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/gpu/conform/golden"
	"github.com/graphrun/graphrun/internal/gpu/ptx"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
)

// TestGolden compares modules with files. GRAPHRUN_UPDATE=1 writes the files.
func TestGolden(t *testing.T) {
	for name, k := range golden.Few(t, kernels.Lookup) {
		text, err := ptx.Module(k, "sm_80")
		require.NoError(t, err)
		golden.CompareFile(t, filepath.Join("testdata", name+".ptx"), text)
	}
}

var (
	label   = regexp.MustCompile(`(?m)^(\$\w+):`)
	target  = regexp.MustCompile(`\$\w+`)
	defined = regexp.MustCompile(`%(?:p|r|rd|f|fd)\d+\b`)
	float   = regexp.MustCompile(`(?m)^\t(?:add|sub|mul|div|fma|sqrt)\.[^\n]*\.f(?:32|64)`)
)

// TestModules checks modules of all primitive operations, and of many functions: labels are unique, branches have
// targets, registers are written before they are read, and operations on floats state their rounding.
func TestModules(t *testing.T) {
	checked := 0
	for name, k := range golden.Many(t, kernels.Lookup, testsize.Of(4, 1)) {
		text, err := ptx.Module(k, "sm_80")
		require.NoError(t, err, name)
		labels := map[string]bool{}
		for _, m := range label.FindAllStringSubmatch(text, -1) {
			require.False(t, labels[m[1]], "%s: %s", name, m[1])
			labels[m[1]] = true
		}
		for _, l := range target.FindAllString(text, -1) {
			require.True(t, labels[l], "%s: %s", name, l)
		}
		written := map[string]bool{}
		for _, line := range strings.Split(text, "\n") {
			registers := defined.FindAllString(line, -1)
			if strings.Contains(line, ".reg ") || len(registers) == 0 {
				continue
			}
			isStore, isVector := strings.HasPrefix(line, "\tst."), strings.HasPrefix(line, "\tld.global.v")
			for n, r := range registers {
				if !isStore && line[1] != '@' && (n == 0 || isVector && n < len(registers)-1) {
					written[r] = true
				}
				require.True(t, written[r], "%s: %s: %s", name, r, line)
			}
		}
		for _, op := range float.FindAllString(text, -1) {
			require.Contains(t, op, ".rn.", name)
		}
		checked++
	}
	t.Logf("%d modules", checked)
	require.Greater(t, checked, 100)
}

var usage = regexp.MustCompile(`(\d+) bytes spill stores, (\d+) bytes spill loads\s+ptxas info +: Used (\d+) registers`)

// TestAssembled assembles modules for two processors with ptxas, and logs their registers.
func TestAssembled(t *testing.T) {
	assembler, err := exec.LookPath("ptxas")
	if err != nil {
		t.Skip("ptxas (CUDA toolkit) is not installed")
	}
	for name, k := range golden.Many(t, kernels.Lookup, testsize.Of(64, 1)) {
		text, err := ptx.Module(k, "sm_80") // the latest target of PTX 7.0
		require.NoError(t, err, name)
		path := filepath.Join(t.TempDir(), "kernel.ptx")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		for _, processor := range []string{"sm_80", "sm_90"} {
			out, err := exec.Command(assembler, "-v", "-arch="+processor, "-o", path+".cubin", path).CombinedOutput()
			require.NoError(t, err, "%s: %s\n%s", name, out, text)
			used := usage.FindStringSubmatch(string(out))
			require.Len(t, used, 4, "%s: %s", name, out)
			t.Logf("%s, %s: %s registers", name, processor, used[3])
			require.Equal(t, []string{"0", "0"}, used[1:3], "%s: bytes of spills", name)
		}
	}
}
