package spirv_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/gpu/conform/golden"
	"github.com/graphrun/graphrun/internal/gpu/spirv"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
)

var exact = spirv.Floats{DenormPreserve: true, SignedZeroInfNan: true, RoundingNearestEven: true}

var options = spirv.Options{Float32: exact, Float64: exact}

// listing returns the instructions of a module, one per line: opcode, then words.
func listing(words []uint32) string {
	var b strings.Builder
	fmt.Fprintf(&b, "header %#x\n", words[:5])
	for at := 5; at < len(words); {
		n := int(words[at] >> 16)
		fmt.Fprintf(&b, "%d %v\n", words[at]&0xffff, words[at+1:at+n])
		at += n
	}
	return b.String()
}

// TestGolden compares modules with files. GRAPHRUN_UPDATE=1 writes the files.
func TestGolden(t *testing.T) {
	for name, k := range golden.Few(t, kernels.Lookup) {
		words, err := spirv.Module(k, options)
		require.NoError(t, err)
		golden.CompareFile(t, filepath.Join("testdata", name+".txt"), listing(words))
	}
}

// TestValid validates modules of all primitive operations, and of many functions, with spirv-val.
func TestValid(t *testing.T) {
	validator, err := exec.LookPath("spirv-val")
	if err != nil {
		t.Skip("spirv-val (package spirv-tools) is not installed")
	}
	valid := 0
	for name, k := range golden.Many(t, kernels.Lookup, testsize.Of(8, 1)) {
		words, err := spirv.Module(k, options)
		require.NoError(t, err, name)
		path := filepath.Join(t.TempDir(), "kernel.spv")
		var bytes []byte
		for _, w := range words {
			bytes = binary.LittleEndian.AppendUint32(bytes, w)
		}
		require.NoError(t, os.WriteFile(path, bytes, 0o600))
		out, err := exec.Command(validator, "--target-env", "vulkan1.2", path).CombinedOutput()
		require.NoError(t, err, "%s: %s\n%v", name, out, k)
		valid++
	}
	t.Logf("%d valid modules", valid)
	require.Greater(t, valid, 50)
}
