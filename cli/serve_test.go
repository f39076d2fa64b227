package cli

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTLSFilesOfServe: an unreadable certificate ends serve before it loads models or listens.
func TestTLSFilesOfServe(t *testing.T) {
	dir := t.TempDir()
	r := call(t, "serve", dir, "--tls-cert", filepath.Join(dir, "none.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	assert.Equal(t, 2, r.code)
	assert.Contains(t, r.errors, "--tls-cert")
	assert.Contains(t, r.errors, "none.pem: there is no such file")
	assert.NotContains(t, r.errors, "listening on")
}
