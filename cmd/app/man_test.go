package app

import "testing"

// docs/klink.1 is made of the commands' own help; -update writes it anew.
func TestManPage(t *testing.T) {
	app := new(shell).app()
	app.Version = "" // the page is the same for every build
	page, err := app.ToManWithSection(1)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "../../docs/klink.1", page)
}
