package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/machine"
)

// oldFiles has files that commit b3471be9f wrote: a certificate and a study's result for the example ambiguous.json,
// and a cached plan for residual.json.
const oldFiles = "testdata/b3471be9f"

// TestOldCertificate: a certificate of an earlier commit is verified. Without the instructions for which it was made,
// the layout problem may differ, and the certificate is refused with the reason.
func TestOldCertificate(t *testing.T) {
	r := call(t, "verify", models+"/ambiguous.json", oldFiles+"/ambiguous.cert.json")
	if machine.HostFeatures().Has(machine.AVX512) {
		assert.Equal(t, exit.CodeDone, r.code, r.errors)
	}
	if r.code == exit.CodeDone {
		assert.Contains(t, r.out, "the certificate holds")
		return
	}
	assert.Equal(t, exit.CodeFailed, r.code)
	assert.NotEmpty(t, r.out+r.errors)
}

// TestOldStudyResult: a result of an earlier commit is used again, if it was made for the same instructions.
func TestOldStudyResult(t *testing.T) {
	files, err := filepath.Glob(oldFiles + "/????????????????????????????????????????????????????????????????.json")
	require.NoError(t, err)
	require.Len(t, files, 1)
	old, err := os.ReadFile(files[0])
	require.NoError(t, err)
	study := write(t, "small.json", `{"version": 1, "name": "small", "strategies": ["propagate", "channels_last", "optimal"],
 "models": [{"file": "ambiguous.json"}], "conditions": [{"name": "avx512", "profile": "avx512"}]}`)
	results := filepath.Join(filepath.Dir(study), "small.results")
	require.NoError(t, os.Mkdir(results, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(results, filepath.Base(files[0])), old, 0o600))
	r := call(t, "study", study, "--models", models, "--resume", "--json")
	require.Equal(t, exit.CodeDone, r.code, r.errors)
	var document studyJSON
	require.NoError(t, json.Unmarshal([]byte(r.out), &document))
	require.Len(t, document.Results, 1)
	var result struct {
		Task struct{ Instructions string }
	}
	require.NoError(t, json.Unmarshal(old, &result))
	left, err := filepath.Glob(results + "/*.json")
	require.NoError(t, err)
	if result.Task.Instructions == machine.HostFeatures().String() {
		assert.Len(t, left, 1, "the result was made again")
	}
	kept, err := os.ReadFile(filepath.Join(results, filepath.Base(files[0])))
	require.NoError(t, err)
	assert.Equal(t, string(old), string(kept))
}

// TestOldCache: entries of other builds are never read, also if one has the name of an entry that is looked up.
func TestOldCache(t *testing.T) {
	run := func(flags ...string) result {
		return call(t, append([]string{"run", models + "/residual.json", "--dim", "N=2", "--seed", "1"}, flags...)...)
	}
	dir, want := t.TempDir(), run()
	require.Equal(t, exit.CodeDone, want.code, want.errors)
	old, err := os.ReadFile(oldFiles + "/residual.entry")
	require.NoError(t, err)
	path := filepath.Join(dir, "2d3270bcec8adc9bffdf7f533a8fc3d0e9a44d9e1de6cb7e05e7547d8d0474e6.entry")
	require.NoError(t, os.WriteFile(path, old, 0o600))
	assert.Equal(t, want, run("--cache", dir))
	entries, err := filepath.Glob(filepath.Join(dir, "*.entry"))
	require.NoError(t, err)
	assert.Greater(t, len(entries), 1, "the plan is stored again")
	for _, entry := range entries {
		require.NoError(t, os.WriteFile(entry, old, 0o600))
	}
	assert.Equal(t, want, run("--cache", dir))
}
