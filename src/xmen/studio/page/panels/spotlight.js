/**
 * A row whose trajectory stands in front on the map while the pointer or the focus is on it.
 *
 * @param {HTMLElement} row
 * @param {import("../map/view.js").MapView} map
 * @param {() => import("../types.js").Front | null} trajectory
 */
export function spotlight(row, map, trajectory) {
    const front = () => {
        map.front.set(trajectory());
        row.classList.add("open");
    };
    const behind = () => {
        if (row.matches(":hover") || row.contains(document.activeElement)) return;
        map.front.set(null);
        row.classList.remove("open");
    };
    for (const name of ["pointerenter", "focusin", "click"]) row.addEventListener(name, front);
    for (const name of ["pointerleave", "focusout"]) row.addEventListener(name, () => setTimeout(behind));
}
