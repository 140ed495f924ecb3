package spell

import "strings"

// Nearest returns the known word closest to word, ignoring case. It is found
// only when at most a third of its letters differ (but one always may), so
// that a suggestion is a likely slip and not a guess. Of equally near words
// the first wins.
func Nearest(word string, known []string) (string, bool) {
	best, found := "", false
	least := 0
	w := strings.ToLower(word)
	for _, k := range known {
		if k == "" {
			continue
		}
		d := distance(w, strings.ToLower(k))
		if d <= max(1, len(k)/3) && (!found || d < least) {
			best, least, found = k, d, true
		}
	}
	return best, found
}

// DidYouMean returns " (did you mean X?)", or "" where nothing is near.
func DidYouMean(word string, known []string) string {
	k, ok := Nearest(word, known)
	if !ok {
		return ""
	}
	return " (did you mean " + k + "?)"
}

// distance is the number of letters to insert, delete, replace or swap with
// their neighbour (optimal string alignment) that turns a into b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
